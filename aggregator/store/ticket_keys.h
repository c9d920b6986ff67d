// Keys of TLS session tickets that several services share, as bytes that only who has the private key of that id can open
// (http/ticket_sealer.h). Thread rule and errors: as store.h.
#ifndef TERN_STORE_TICKET_KEYS_H
#define TERN_STORE_TICKET_KEYS_H

#include "store/store.h"

struct tern_db_ticket_keys {
#define COLUMN TERN_MEMBER
#include "store/tables/ticket_keys.def"
};
// The first `size` bytes of them. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_db_ticket_keys_get(struct tern_db *db,
                                                       const uint8_t sealer[TERN_SHA256_SIZE],
                                                       uint8_t *sealed, size_t size, size_t *len);
// In the place of those that there are.
TERN_MUST_USE enum tern_result tern_db_ticket_keys_put(struct tern_db *db,
                                                       const uint8_t sealer[TERN_SHA256_SIZE],
                                                       const uint8_t *sealed, size_t len,
                                                       uint64_t now_ms);
// Forgets those that nobody has put since.
TERN_MUST_USE enum tern_result tern_db_ticket_keys_drop(struct tern_db *db, uint64_t before_ms);

#endif
