#include "service/psk_keys.h"

#include <stdlib.h>
#include <string.h>

void tern_psk_keys_init(struct tern_psk_keys *keys)
{
    memset(keys, 0, sizeof *keys);
    pthread_rwlock_init(&keys->lock, NULL);
}

// Secrets do not stay in freed memory.
static void discard(struct tern_db_psk *entries, size_t count)
{
    if (entries != NULL) {
        explicit_bzero(entries, count * sizeof entries[0]);
        free(entries);
    }
}

void tern_psk_keys_free(struct tern_psk_keys *keys)
{
    discard(keys->entries, keys->count);
    pthread_rwlock_destroy(&keys->lock);
}

struct loading {
    struct tern_db_psk *entries;
    size_t count;
    size_t capacity;
};

static enum tern_result grow(struct loading *loading)
{
    size_t capacity = loading->capacity == 0 ? 64 : loading->capacity * 2;
    struct tern_db_psk *entries = calloc(capacity, sizeof entries[0]);
    if (entries == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (loading->count > 0) {
        memcpy(entries, loading->entries, loading->count * sizeof entries[0]);
    }
    discard(loading->entries, loading->count);
    loading->entries = entries;
    loading->capacity = capacity;
    return TERN_OK;
}

static enum tern_result take_key(struct loading *loading, const struct tern_db_psk *psk)
{
    if (loading->count == loading->capacity) {
        TERN_TRY(grow(loading));
    }
    loading->entries[loading->count++] = *psk;
    return TERN_OK;
}

enum tern_result tern_psk_keys_load(struct tern_psk_keys *keys, struct tern_db *db)
{
    struct loading loading = {.count = 0};
    struct tern_db_psk psk;
    struct tern_db_rows *rows = tern_db_psks(db);
    while (tern_db_next(rows, &psk)) {
        tern_db_check_row(rows, take_key(&loading, &psk));
    }
    enum tern_result result = tern_db_end(rows);
    if (result != TERN_OK) {
        discard(loading.entries, loading.count);
        return result;
    }
    pthread_rwlock_wrlock(&keys->lock);
    struct tern_db_psk *old = keys->entries;
    size_t old_count = keys->count;
    keys->entries = loading.entries;
    keys->count = loading.count;
    pthread_rwlock_unlock(&keys->lock);
    discard(old, old_count);
    return TERN_OK;
}

static int by_client(const void *a, const void *b)
{
    uint64_t left = ((const struct tern_db_psk *)a)->client;
    uint64_t right = ((const struct tern_db_psk *)b)->client;
    return (left > right) - (left < right);
}

bool tern_psk_keys_find(struct tern_psk_keys *keys, uint64_t client, uint8_t *key)
{
    struct tern_db_psk wanted = {.client = client};
    pthread_rwlock_rdlock(&keys->lock);
    const struct tern_db_psk *found =
        keys->count == 0 ? NULL
                         : bsearch(&wanted, keys->entries, keys->count, sizeof wanted, by_client);
    if (found != NULL && key != NULL) {
        memcpy(key, found->key, TERN_PSK_SIZE);
    }
    pthread_rwlock_unlock(&keys->lock);
    return found != NULL;
}
