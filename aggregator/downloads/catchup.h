// Chooses, makes and stores the downloads that bring a client from its replica to the newest version, or near enough to it.
// The trunk is the sequence of the versions' replicas, which all clients can share. A client that missed rounds can get
// downloads made for it, which lead to another replica; clients that missed the same rounds share these. A download is in the
// store before a task names it.
//
// Called by federation/ on the thread that owns the store. Functions with a result are called in a transaction, unless noted
// otherwise; the result differs from TERN_OK only when the store or memory fails.
#ifndef TERN_CATCHUP_H
#define TERN_CATCHUP_H

#include "downloads/abilities.h"
#include "downloads/plan.h"
#include "hosted/spool.h"
#include "merge/delta.h"
#include "merge/merge.h"
#include "store/store.h"
#include "wire/wire.h"

// The setting downloads.plan: how training clients catch up.
enum tern_downloads_plan {
    TERN_DOWNLOADS_TRUNK,    // every client gets a version's replica
    TERN_DOWNLOADS_CHEAPEST, // a client that missed rounds gets the cheapest downloads near enough
};

struct tern_catchup_config {
    enum tern_downloads_plan plan;
    struct tern_codec codec; // of a version's delta
    // largest residual that a path may leave, as a multiple of the trunk's residual
    double residual;
    uint32_t keep_versions;   // versions whose deltas stay in the store
    uint64_t replica_bytes;   // limit of downloads and replicas in the store; 0 = none
    uint64_t replica_cache;   // bytes of replicas cached in memory
    uint64_t replica_files;   // bytes of further replicas cached in files
    uint64_t download_cache;  // bytes of blobs cached in memory
    const char *spool_folder; // for unnamed files with large blobs; NULL = in memory
    // For models of at most so many values, the caller's thread searches and makes snapshots.
    uint32_t inline_values;
};

// Default of inline_values: a search takes at most some ms at this number of values.
#define TERN_CATCHUP_INLINE_VALUES (1u << 18)

// Number of searches for one client in one version, which is limited. All zeros at first.
struct tern_searches {
    uint32_t version;
    uint32_t count;
};

struct tern_catchup;

// merge: borrowed; it makes the versions. wake: called by the thread of a search or snapshot that has ended.
// TERN_ERR_NO_MEMORY; errors of tern_db_open()
TERN_MUST_USE enum tern_result tern_catchup_new(const struct tern_catchup_config *config,
                                                struct tern_db *db, const struct tern_merge *merge,
                                                void (*wake)(void *ctx), void *wake_ctx,
                                                struct tern_catchup **catchup);
void tern_catchup_free(struct tern_catchup *catchup); // NULL is allowed

// Loads deltas, snapshot and replicas from the store, after the merge has loaded its version. Call outside of transactions.
TERN_MUST_USE enum tern_result tern_catchup_load(struct tern_catchup *catchup, uint64_t now);

// Stores the delta of the version that the merge has just made, and deletes old snapshots. from: id of the previous version's
// replica.
TERN_MUST_USE enum tern_result tern_catchup_version(struct tern_catchup *catchup,
                                                    const struct tern_download_made *made,
                                                    const uint8_t from[TERN_SHA256_SIZE],
                                                    uint64_t now);

// Deletes unneeded replicas after a version was made. The clients' rows in the store must be current.
TERN_MUST_USE enum tern_result tern_catchup_collect(struct tern_catchup *catchup);

// Frees a full disk: deletes half of the bytes of downloads and replicas, at most `most` bytes, the least recently used first.
// Keeps what clients of the newest versions need.
TERN_MUST_USE enum tern_result tern_catchup_free_disk(struct tern_catchup *catchup, uint64_t most);

// Deletes some bytes of large downloads and replicas that were deleted. *more: bytes may be left
TERN_MUST_USE enum tern_result tern_catchup_drop_some(struct tern_catchup *catchup, bool *more);

// Completes a replica's id from its first bytes, as a check-in has them. id: in: the client's previous replica; out: the
// whole id or, if the store does not have it, `name` followed by zeros.
TERN_MUST_USE enum tern_result tern_catchup_complete_id(struct tern_catchup *catchup,
                                                        const uint8_t name[TERN_WIRE_REPLICA_BYTES],
                                                        uint8_t id[TERN_SHA256_SIZE]);

// Sets *stranded if no downloads that the client can decode lead to the newest version.
TERN_MUST_USE enum tern_result tern_catchup_is_stranded(struct tern_catchup *catchup,
                                                        const struct tern_db_client *client,
                                                        bool *stranded);

// Finds the path of a training client, or starts a search for it (path->pending). newest_only: a replica of an older version
// is never near enough.
TERN_MUST_USE enum tern_result tern_catchup_trainer(struct tern_catchup *catchup,
                                                    const struct tern_db_client *client,
                                                    struct tern_searches *searches,
                                                    bool newest_only, uint64_t now,
                                                    struct tern_path *path);

// --- The thread of searches and of snapshots in float32
//
// It does one work at a time. While it runs, nothing may change the merge or use its scratch memory.

// Whether a search or snapshot is being made, or its result is not stored yet.
bool tern_catchup_is_searching(const struct tern_catchup *catchup);
// Whether a search or snapshot has ended and its result is not stored yet, or in part.
bool tern_catchup_has_found(const struct tern_catchup *catchup);
// Stores up to 1 MiB of the result of a search or snapshot that has ended, in a transaction: tern_catchup_has_found() is true
// until all is stored. Then sets *found: paths that were pending may exist.
TERN_MUST_USE enum tern_result tern_catchup_store_found(struct tern_catchup *catchup, uint64_t now,
                                                        bool *found);
// Waits until the running search or snapshot, if any, has ended. NULL is allowed.
void tern_catchup_wait(struct tern_catchup *catchup);
// Returns why the database that searches read is damaged, or NULL.
const char *tern_catchup_damage(const struct tern_catchup *catchup);

// --- Paths that need no search; path->pending: their snapshot is being made, or waits for other work

// Finds the path of an evaluator: to the next version, or to the newest. again: the path exists also if the client has the
// newest version, to evaluate it once more.
TERN_MUST_USE enum tern_result tern_catchup_evaluator(struct tern_catchup *catchup,
                                                      const struct tern_db_client *client,
                                                      bool again, struct tern_path *path);

// Sets *global if the replica equals the global model of its version, bit for bit. An unknown replica does not.
TERN_MUST_USE enum tern_result tern_catchup_is_global(struct tern_catchup *catchup,
                                                      const uint8_t replica[TERN_SHA256_SIZE],
                                                      bool *global);

// Finds the path to the newest version's global model: one snapshot. It does not exist if the client has that model or cannot
// decode the snapshot.
TERN_MUST_USE enum tern_result tern_catchup_final(struct tern_catchup *catchup,
                                                  const struct tern_db_client *client, uint64_t now,
                                                  struct tern_path *path);

// Sets *blob to a new reference to the download with that hash; blob NULL: sets only the facts, without reading its bytes.
// TERN_ERR_NOT_FOUND  no such download
// TERN_ERR_BUSY       too little disk, memory or descriptors; try later
TERN_MUST_USE enum tern_result tern_catchup_blob(struct tern_catchup *catchup,
                                                 const uint8_t sha256[TERN_SHA256_SIZE],
                                                 struct tern_blob **blob,
                                                 struct tern_download_facts *facts);

// Returns the bytes of downloads and replicas in the store.
uint64_t tern_catchup_bytes(const struct tern_catchup *catchup);

// The searches for clients' downloads and the snapshots that have ended.
struct tern_search_cost {
    uint64_t searches; // without snapshots; also searches that still run
    uint64_t cpu_ns;   // processor time
};
struct tern_search_cost tern_catchup_cost(const struct tern_catchup *catchup);

#endif
