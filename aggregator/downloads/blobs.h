// Blobs whose bytes come piece by piece, and a cache of blobs within a bound of bytes. Catchup and nodes that relay downloads
// call it, each on one thread; the blobs themselves may be shared with any thread.
#ifndef TERN_BLOBS_H
#define TERN_BLOBS_H

#include "downloads/whole.h"
#include "hosted/blob.h"
#include "merge/delta.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

// --- New blobs: one above TERN_BLOB_LONG is in a file from its first byte on, where there is a folder for it, so that it
// need not fit into memory

// A blob that every new client fetches must neither be in memory for each of them nor be evicted by each.
#define TERN_BLOB_LONG (1u << 20)

struct tern_new_blob {
    struct tern_spool spool;
    struct tern_blob *blob; // in memory; NULL = in the file
    size_t len;
    size_t most;
};

// For a blob of `most` bytes at most. folder: NULL = in memory, whatever its size.
// TERN_ERR_BUSY  too little disk, memory or descriptors for it; the log names which
TERN_MUST_USE enum tern_result tern_new_blob_begin(struct tern_new_blob *made, const char *folder,
                                                   size_t most);
// The same, but in memory where the file cannot be made: for blobs that others wait for.
TERN_MUST_USE enum tern_result tern_new_blob_begin_anyhow(struct tern_new_blob *made,
                                                          const char *folder, size_t most);
// The sink for its bytes. TERN_ERR_BUSY as above; TERN_ERR_NO_SPACE  more than `most` bytes
struct tern_download_sink tern_new_blob_sink(struct tern_new_blob *made);
// Completes it. TERN_ERR_BUSY as above; nothing is left of it then
TERN_MUST_USE enum tern_result tern_new_blob_end(struct tern_new_blob *made,
                                                 struct tern_blob **blob);
// Drops it. Also after an error of the functions above.
void tern_new_blob_drop(struct tern_new_blob *made);

// Whether a blob is in a file.
bool tern_blob_is_in_file(const struct tern_blob *blob);

// --- The cache: drops the least recently used blobs first

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
