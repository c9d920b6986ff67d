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

struct psk_entry {
    uint64_t client;
    uint8_t key[TERN_PSK_SIZE];
};

struct psk_keys {
    pthread_rwlock_t lock;
    struct psk_entry *entries; // ascending by client
    size_t count;
};

void psk_keys_init(struct psk_keys *keys);
void psk_keys_free(struct psk_keys *keys);

// Takes what the store holds. On an error the keys stay as they were.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result psk_keys_load(struct psk_keys *keys, struct tern_db *db);

// Whether the client has a key; a revoked one has none. key: written then, TERN_PSK_SIZE bytes, and
// left as it is otherwise; NULL = only asked whether.
bool psk_keys_find(struct psk_keys *keys, uint64_t client, uint8_t *key);

#endif
