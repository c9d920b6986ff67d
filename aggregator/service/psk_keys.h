// The pre-shared keys of those clients that shake hands with one, in memory: the listeners' threads
// ask during handshakes and before requests, and must not wait for the database. The service thread
// replaces all of them when clients have changed. Safe from any thread.
#ifndef TERN_PSK_KEYS_H
#define TERN_PSK_KEYS_H

#include "result.h"
#include "store/store.h"
#include "wire/psk.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_psk_keys {
    pthread_rwlock_t lock;
    struct tern_db_psk *entries; // ascending by client
    size_t count;
};

void tern_psk_keys_init(struct tern_psk_keys *keys);
void tern_psk_keys_free(struct tern_psk_keys *keys);

// Takes what the store holds. On an error the keys stay as they were.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_psk_keys_load(struct tern_psk_keys *keys, struct tern_db *db);

// Whether the client has a key; a revoked one has none. key: written then, TERN_PSK_SIZE bytes, and
// left as it is otherwise; NULL = only asked whether.
bool tern_psk_keys_find(struct tern_psk_keys *keys, uint64_t client, uint8_t *key);

#endif
