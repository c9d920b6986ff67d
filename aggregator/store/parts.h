// Partial sums of the open round, made by nodes that follow (merge/part.h), in pieces. Thread rule and errors: as store.h.
#ifndef TERN_STORE_PARTS_H
#define TERN_STORE_PARTS_H

#include "store/store.h"

#define TERN_DB_PIECE_BYTES (UINT32_C(4) << 20) // of a part, at most

// A piece of a part.
struct tern_db_part {
#define COLUMN TERN_MEMBER
#include "store/tables/parts.def"
};
// Forgets the node's part of that round, whole or not.
TERN_MUST_USE enum tern_result tern_db_part_drop(struct tern_db *db, uint32_t round,
                                                 const char *node);
// Inserts or replaces a piece.
// TERN_ERR_CONFLICT  the round is not open; TERN_ERR_TOO_LARGE  above TERN_DB_PIECE_BYTES
TERN_MUST_USE enum tern_result tern_db_part_put(struct tern_db *db,
                                                const struct tern_db_part *piece);
// Up to `most` of the parts of a round that are whole, in node order: their pieces 0 without the body.
TERN_MUST_USE enum tern_result tern_db_parts(struct tern_db *db, uint32_t round,
                                             struct tern_db_part *parts, size_t most,
                                             size_t *count);
// Shows one piece; its body is valid during the call only. Returns what show returned. NOT_FOUND
TERN_MUST_USE enum tern_result
tern_db_part_show(struct tern_db *db, uint32_t round, const char *node, uint32_t piece,
                  enum tern_result (*show)(void *ctx, const struct tern_db_part *piece), void *ctx);
// A round was closed: forgets its parts, and what came of earlier rounds after their close.
TERN_MUST_USE enum tern_result tern_db_parts_drop(struct tern_db *db, uint32_t round);

#endif
