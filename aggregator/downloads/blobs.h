// Builds blobs from pieces, and caches blobs within a limit of bytes. Called by catchup.c and by nodes that relay downloads,
// each on one thread; any thread may share the blobs themselves.
#ifndef TERN_BLOBS_H
#define TERN_BLOBS_H

#include "downloads/whole.h"
#include "hosted/spool.h"
#include "merge/merge.h"
#include "store/store.h"
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

// Copies bytes in memory to a new blob. Errors of tern_new_blob_begin_or_memory()
TERN_MUST_USE enum tern_result tern_blob_copy(const char *folder, const uint8_t *bytes, size_t len,
                                              struct tern_blob **blob);

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

// --- Downloads in the store, of which some blobs are cached

struct tern_download_store {
    struct tern_db *db;
    const char *spool_folder;      // for unnamed files with large blobs; NULL = in memory
    struct tern_blob_cache memory; // of blobs in memory
    struct tern_blob_cache files;  // of blobs in files
};

// Reads a stored download. folder: as for tern_new_blob_begin(). TERN_ERR_BUSY as above; errors of the store
TERN_MUST_USE enum tern_result tern_download_read(struct tern_db *db, const char *folder,
                                                  const struct tern_db_download *row,
                                                  struct tern_blob **blob);

// Stores a download, unless it is stored, and caches its blob. Adds the stored bytes to *bytes.
TERN_MUST_USE enum tern_result tern_download_store_put(struct tern_download_store *store,
                                                       const struct tern_db_download *row,
                                                       struct tern_blob *blob, uint64_t *bytes);

// Sets *blob to a new reference to the download with that hash; blob NULL: sets only the facts.
// TERN_ERR_NOT_FOUND  no such download
// TERN_ERR_BUSY       too little disk, memory or descriptors; try later
TERN_MUST_USE enum tern_result tern_download_store_get(struct tern_download_store *store,
                                                       const uint8_t sha256[TERN_SHA256_SIZE],
                                                       struct tern_blob **blob,
                                                       struct tern_download_facts *facts);

// --- Snapshots in float32

enum tern_snapshot_weights {
    TERN_SNAPSHOT_REPLICA, // the newest version's replica
    TERN_SNAPSHOT_GLOBAL,  // the newest version's global model, as a new replica
};

// Writes a snapshot of the newest version to a new blob, and fills its row. folder: as for tern_new_blob_begin_or_memory()
// TERN_ERR_NON_FINITE  a weight is not finite
TERN_MUST_USE enum tern_result tern_snapshot_blob(const struct tern_merge *merge,
                                                  enum tern_snapshot_weights which,
                                                  const char *folder, struct tern_db_download *row,
                                                  struct tern_blob **blob);

#endif
