// Downloads kept in memory, least recently used thrown out first, within a bound of bytes. Owned by
// the service thread; the blobs themselves may be shared with any thread.
#ifndef TERN_BLOB_CACHE_H
#define TERN_BLOB_CACHE_H

#include "downloads/made.h"
#include "hosted/blob.h"
#include "util/sha256.h"
#include <stdint.h>

#define TERN_BLOB_CACHE_SLOTS 1024

struct tern_blob_entry;

struct tern_blob_cache {
    struct tern_blob_entry *slots[TERN_BLOB_CACHE_SLOTS];
    struct tern_blob_entry *newest;
    struct tern_blob_entry *oldest;
    uint64_t bytes;
    uint64_t bytes_max;
};

// One reference more to the blob of that name, or NULL.
struct tern_blob *tern_blob_cache_get(struct tern_blob_cache *cache,
                                      const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_download_facts *facts);

// Whether it has the blob of that name; sets only facts.
bool tern_blob_cache_know(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                          struct tern_download_facts *facts);

// Keeps a reference of its own, unless the blob alone is over the bound or memory is short.
void tern_blob_cache_put(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                         struct tern_blob *blob, const struct tern_download_facts *facts);

void tern_blob_cache_clear(struct tern_blob_cache *cache);

#endif
