#include "memory_store.h"
#include <stdlib.h>
#include <string.h>

static enum tern_result save(void *ctx, enum tern_record record,
                             const struct tern_store_part *parts, size_t part_count)
{
    struct tern_memory_store *store = ctx;
    size_t len = 0;
    for (size_t i = 0; i < part_count; i++) {
        len += parts[i].len;
    }
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        return TERN_ERR_NO_SPACE;
    }
    size_t at = 0;
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].len > 0) {
            memcpy(copy + at, parts[i].data, parts[i].len);
        }
        at += parts[i].len;
    }
    free(store->records[record]);
    store->records[record] = copy;
    store->lengths[record] = len;
    return TERN_OK;
}

static enum tern_result load(void *ctx, enum tern_record record, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    const struct tern_memory_store *store = ctx;
    if (store->records[record] == NULL) {
        return TERN_ERR_NOT_FOUND;
    }
    *record_len = store->lengths[record];
    if (offset > *record_len || len > *record_len - offset) {
        return TERN_ERR_CORRUPT;
    }
    if (len > 0) {
        memcpy(dst, store->records[record] + offset, len);
    }
    return TERN_OK;
}

struct tern_store tern_memory_store_port(struct tern_memory_store *store)
{
    return (struct tern_store){.ctx = store, .save = save, .load = load};
}

void tern_memory_store_clear(struct tern_memory_store *store)
{
    for (int i = 0; i < TERN_RECORD_COUNT; i++) {
        free(store->records[i]);
        store->records[i] = NULL;
        store->lengths[i] = 0;
    }
}
