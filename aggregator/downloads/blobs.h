// Reads and stores downloads, caches their blobs, and makes snapshots. Blobs above 1 MiB are in unnamed files, so that they
// take no memory. Called by catchup.c on the thread that owns the store, and by search.c, which caches nothing, on any
// thread; any thread may share a blob.
#ifndef TERN_BLOBS_H
#define TERN_BLOBS_H

#include "downloads/whole.h"
#include "hosted/spool.h"
#include "merge/merge.h"
#include "store/store.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

// Copies bytes in memory to a new blob. folder: for an unnamed file with a large blob; NULL = in memory.
// TERN_ERR_BUSY  too little disk, memory or descriptors; the log names which
TERN_MUST_USE enum tern_result tern_blob_copy(const char *folder, const uint8_t *bytes, size_t len,
                                              struct tern_blob **blob);

// Blobs in memory within a limit of bytes; the least recently used ones are dropped first.
#define TERN_BLOB_CACHE_SLOTS 1024

struct tern_blob_entry;

struct tern_blob_cache {
    struct tern_blob_entry *slots[TERN_BLOB_CACHE_SLOTS];
    struct tern_blob_entry *newest;
    struct tern_blob_entry *oldest;
    uint64_t bytes;
    uint64_t bytes_max;
};

// --- Downloads in the store, of which some blobs are cached

struct tern_download_store {
    struct tern_db *db;
    const char *spool_folder;      // for unnamed files with large blobs; NULL = in memory
    struct tern_blob_cache memory; // of blobs in memory
    struct tern_blob_cache files;  // of blobs in files
};

// Reads a stored download into a new blob. folder and TERN_ERR_BUSY: as for tern_blob_copy(); errors of the store
TERN_MUST_USE enum tern_result tern_download_read(struct tern_db *db, const char *folder,
                                                  const struct tern_db_download *row,
                                                  struct tern_blob **blob);

// Forgets cached blobs that no new task will name: those of versions before this one, except the trunk's deltas. A client that
// is still downloading one reads it from the store. TERN_ALL_VERSIONS: forgets all blobs.
#define TERN_ALL_VERSIONS UINT32_MAX
void tern_download_store_forget(struct tern_download_store *store, uint32_t version);

// Stores up to 1 MiB of a download, unless the store has it, and caches its blob with the last bytes. *more: bytes are missing,
// which further calls store, also in other transactions. Adds the bytes of the download to *bytes once they are complete.
TERN_MUST_USE enum tern_result tern_download_store_put(struct tern_download_store *store,
                                                       const struct tern_db_download *row,
                                                       struct tern_blob *blob, uint64_t *bytes,
                                                       bool *more);

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
    TERN_SNAPSHOT_GLOBAL,  // the newest version's global model, from which a new replica begins
};

// Writes a snapshot of the newest version to a new blob, and fills its row. folder: as for tern_blob_copy()
// TERN_ERR_NON_FINITE  a weight is not finite
TERN_MUST_USE enum tern_result tern_snapshot_blob(const struct tern_merge *merge,
                                                  enum tern_snapshot_weights which,
                                                  const char *folder, struct tern_db_download *row,
                                                  struct tern_blob **blob);

#endif
