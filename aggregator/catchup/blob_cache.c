#include "catchup/blob_cache.h"

#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

struct tern_blob_entry {
    uint8_t sha256[TERN_SHA256_SIZE];
    struct tern_download_facts facts;
    struct tern_blob *blob;
    struct tern_blob_entry *in_slot; // next with the same slot
    struct tern_blob_entry *newer;
    struct tern_blob_entry *older;
};

static struct tern_blob_entry **slot_of(struct tern_blob_cache *cache,
                                        const uint8_t sha256[TERN_SHA256_SIZE])
{
    return &cache->slots[tern_get_le32(sha256) % TERN_BLOB_CACHE_SLOTS];
}

static void unlink_age(struct tern_blob_cache *cache, struct tern_blob_entry *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct tern_blob_cache *cache, struct tern_blob_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static struct tern_blob_entry *find(struct tern_blob_cache *cache,
                                    const uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_blob_entry *entry = *slot_of(cache, sha256);
    while (entry != NULL && memcmp(entry->sha256, sha256, TERN_SHA256_SIZE) != 0) {
        entry = entry->in_slot;
    }
    return entry;
}

static void drop_oldest(struct tern_blob_cache *cache)
{
    struct tern_blob_entry *entry = cache->oldest;
    struct tern_blob_entry **at = slot_of(cache, entry->sha256);
    while (*at != entry) {
        at = &(*at)->in_slot;
    }
    *at = entry->in_slot;
    unlink_age(cache, entry);
    cache->bytes -= entry->blob->len;
    tern_blob_release(entry->blob);
    free(entry);
}

struct tern_blob *tern_blob_cache_get(struct tern_blob_cache *cache,
                                      const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_download_facts *facts)
{
    struct tern_blob_entry *entry = find(cache, sha256);
    if (entry == NULL) {
        return NULL;
    }
    unlink_age(cache, entry);
    link_newest(cache, entry);
    *facts = entry->facts;
    return tern_blob_share(entry->blob);
}

bool tern_blob_cache_know(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                          struct tern_download_facts *facts)
{
    const struct tern_blob_entry *entry = find(cache, sha256);
    if (entry != NULL) {
        *facts = entry->facts;
    }
    return entry != NULL;
}

void tern_blob_cache_put(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                         struct tern_blob *blob, const struct tern_download_facts *facts)
{
    if (blob->len > cache->bytes_max || find(cache, sha256) != NULL) {
        return;
    }
    struct tern_blob_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return;
    }
    while (cache->bytes > cache->bytes_max - blob->len) {
        drop_oldest(cache);
    }
    memcpy(entry->sha256, sha256, TERN_SHA256_SIZE);
    entry->facts = *facts;
    entry->blob = tern_blob_share(blob);
    struct tern_blob_entry **slot = slot_of(cache, sha256);
    entry->in_slot = *slot;
    *slot = entry;
    link_newest(cache, entry);
    cache->bytes += blob->len;
}

void tern_blob_cache_clear(struct tern_blob_cache *cache)
{
    while (cache->oldest != NULL) {
        drop_oldest(cache);
    }
}
