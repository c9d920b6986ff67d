// How a node's part of a round comes to the aggregator that closes it: through the store, which both share. Who calls,
// and thread rule: as part.h. Outside of transactions.
#ifndef TERN_PART_DELIVERY_H
#define TERN_PART_DELIVERY_H

#include "merge/part.h"

// Stores it as the node's part of its round, as tern_part_store() does, where that is worth it.
// *delivered: false, and nothing is stored, where it is not: it covers nothing, or has more bytes than the bodies that
// it replaces (docs/DESIGN.md, "Parts of a round"). Errors of tern_part_store()
TERN_MUST_USE enum tern_result tern_part_deliver(struct tern_part *part, struct tern_db *db,
                                                 const char *node, bool *delivered);

// Stores it whatever it has, piece by piece of TERN_DB_PIECE_BYTES in transactions of their own, so that who else
// writes waits for one. It is there with the last of them, in place of what the node had delivered of that round. The part
// stays as it is, and may be delivered again. node: fewer than TERN_DB_NODE_MAX bytes.
// TERN_ERR_STATE     it covers nothing
// TERN_ERR_CONFLICT  the round is not open any more, or an update was added twice
// TERN_ERR_NO_MEMORY, the store's
TERN_MUST_USE enum tern_result tern_part_store(struct tern_part *part, struct tern_db *db,
                                               const char *node);

#endif
