// Builds blobs from pieces, and caches blobs within a limit of bytes. Called by catchup.c and by nodes that relay downloads,
// each on one thread; any thread may share the blobs themselves.
#ifndef TERN_BLOBS_H
#define TERN_BLOBS_H

#include "downloads/whole.h"
#include "hosted/spool.h"
#include "merge/delta.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

// --- New blobs: if a folder is configured, a blob above TERN_BLOB_LONG is in a file from its first byte on

// Large blobs take no memory, and no cached small blob is evicted for them.
#define TERN_BLOB_LONG (1u << 20)

struct tern_new_blob {
    struct tern_spool spool;
    struct tern_blob *blob; // in memory; NULL = in the file
    size_t len;
    size_t most;
};

// Begins a blob of at most `most` bytes. folder: NULL = in memory, whatever its size.
// TERN_ERR_BUSY  too little disk, memory or descriptors; the log names which
TERN_MUST_USE enum tern_result tern_new_blob_begin(struct tern_new_blob *made, const char *folder,
                                                   size_t most);
// Like tern_new_blob_begin(), but falls back to memory when it cannot make the file: for blobs that clients wait for.
TERN_MUST_USE enum tern_result tern_new_blob_begin_or_memory(struct tern_new_blob *made,
                                                             const char *folder, size_t most);
// Returns the sink for the blob's bytes. Its errors: TERN_ERR_BUSY as above; TERN_ERR_NO_SPACE: more than `most` bytes
struct tern_download_sink tern_new_blob_sink(struct tern_new_blob *made);
// Completes the blob. TERN_ERR_BUSY as above: the blob is dropped
TERN_MUST_USE enum tern_result tern_new_blob_end(struct tern_new_blob *made,
                                                 struct tern_blob **blob);
// Drops an incomplete blob, also after an error of the functions above; does nothing after tern_new_blob_end().
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

// Returns a new reference to the blob with that hash, or NULL.
struct tern_blob *tern_blob_cache_get(struct tern_blob_cache *cache,
                                      const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_download_facts *facts);

// Whether the cache has the blob with that hash. Sets *facts if so.
bool tern_blob_cache_facts(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                           struct tern_download_facts *facts);

// Adds a reference to the blob, unless the blob alone exceeds the limit or memory is short.
void tern_blob_cache_put(struct tern_blob_cache *cache, const uint8_t sha256[TERN_SHA256_SIZE],
                         struct tern_blob *blob, const struct tern_download_facts *facts);

void tern_blob_cache_clear(struct tern_blob_cache *cache);

#endif
