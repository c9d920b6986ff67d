// Decides which downloads bring a client from the replica that it holds to the newest version, or near enough to it, and
// makes and stores them. The trunk is one replica for each version, which all clients can share; a client that missed
// rounds can be led to a replica of its own, which it shares with clients that missed the same. A download is in the store
// before a task names it.
//
// federation/ calls it on the thread that owns the store. Functions that return a result are
// called inside a transaction, unless noted otherwise; the result is other than TERN_OK only
// when the store or memory fails.
#ifndef TERN_CATCHUP_H
#define TERN_CATCHUP_H

#include "downloads/abilities.h"
#include "downloads/plan.h"
#include "hosted/blob.h"
#include "merge/delta.h"
#include "merge/merge.h"
#include "store/store.h"
#include "wire/wire.h"

// How clients that train are brought up to date.
enum tern_downloads_plan {
    TERN_DOWNLOADS_TRUNK,    // all hold the replica of a version
    TERN_DOWNLOADS_CHEAPEST, // one that missed rounds is led to a replica of its own
};

struct tern_catchup_config {
    enum tern_downloads_plan plan;
    struct tern_codec codec;  // of the delta that makes a version
    double residual;          // a way's residual over the trunk's, at most
    struct tern_codec refine; // of further passes
    uint32_t passes;          // of those, in one task
    uint32_t keep_versions;   // whose deltas are kept in the store
    uint64_t replica_bytes;   // of downloads and replicas in the store; 0 = no bound
    uint64_t replica_cache;   // bytes of replicas kept in memory
    uint64_t download_cache;  // bytes of blobs kept in memory
    const char *spool_folder; // of files without a name for blobs of many bytes; NULL = in memory
};

// Searches for one client's way to a version, of which there is a bounded number. Zeros at first.
struct tern_searches {
    uint32_t version;
    uint32_t count;
};

// What a client downloads, in this order, and where it is then.
struct tern_way {
    bool leads; // else there is no way, and what follows is empty
    bool own;   // made for one client; the downloads of others are the same for many
    uint8_t base[TERN_SHA256_SIZE];
    uint32_t base_version;
    uint32_t count;
    uint8_t sha256[TERN_PLAN_MAX][TERN_SHA256_SIZE];
    uint32_t bytes[TERN_PLAN_MAX];
};

struct tern_catchup;

// merge: borrowed; the versions are made there. NULL when memory is short.
struct tern_catchup *tern_catchup_new(const struct tern_catchup_config *config, struct tern_db *db,
                                      const struct tern_merge *merge);
void tern_catchup_free(struct tern_catchup *catchup); // NULL is allowed

// Everything from the store again, once the merge has its version. Outside of transactions.
TERN_MUST_USE enum tern_result tern_catchup_load(struct tern_catchup *catchup, uint64_t now);

// The merge has just made a version by this download: stores it and forgets what has grown old.
// from: the replica before.
TERN_MUST_USE enum tern_result tern_catchup_version(struct tern_catchup *catchup,
                                                    const struct tern_download_made *made,
                                                    const uint8_t from[TERN_SHA256_SIZE],
                                                    uint64_t now);

// Once the clients' rows are current: forgets replicas that nobody needs, after a version
// was made.
TERN_MUST_USE enum tern_result tern_catchup_collect(struct tern_catchup *catchup);

// Where the disk is low: forgets half of the bytes of downloads and replicas, at most `most` at a time, the least recently
// used first; what leads clients on from the newest versions stays.
TERN_MUST_USE enum tern_result tern_catchup_give_way(struct tern_catchup *catchup, uint64_t most);

// Completes the name of a client's replica, the id's first bytes. id: the replica that the client held before; on return
// the whole id or, where the store no longer has it, the name followed by zeros.
TERN_MUST_USE enum tern_result tern_catchup_named(struct tern_catchup *catchup,
                                                  const uint8_t name[TERN_WIRE_REPLICA_BYTES],
                                                  uint8_t id[TERN_SHA256_SIZE]);

// Whether no downloads that it could take lead a client to the present version.
TERN_MUST_USE enum tern_result tern_catchup_is_stranded(struct tern_catchup *catchup,
                                                        const struct tern_db_client *client,
                                                        bool *stranded);

// The way of a client that is to train. newest: what is of an older version is never near enough.
TERN_MUST_USE enum tern_result tern_catchup_trainer(struct tern_catchup *catchup,
                                                    const struct tern_db_client *client,
                                                    struct tern_searches *searches, bool newest,
                                                    uint64_t now, struct tern_way *way);

// The way of one that evaluates each version: to the next one, or to the newest. again: it is to
// evaluate the newest although it holds it; else that way does not lead.
TERN_MUST_USE enum tern_result tern_catchup_evaluator(struct tern_catchup *catchup,
                                                      const struct tern_db_client *client,
                                                      bool again, struct tern_way *way);

// Whether that replica is a version's global model itself, bit for bit: nothing of it was left out on
// the way there. One that is not known is not.
TERN_MUST_USE enum tern_result tern_catchup_is_global(struct tern_catchup *catchup,
                                                      const uint8_t replica[TERN_SHA256_SIZE],
                                                      bool *global);

// The way to the newest version's global model itself: one download, which replaces what is held. It does
// not lead where that is held already, or the client cannot read it.
TERN_MUST_USE enum tern_result tern_catchup_final(struct tern_catchup *catchup,
                                                  const struct tern_db_client *client, uint64_t now,
                                                  struct tern_way *way);

// A download of that name, one reference more.
// TERN_ERR_NOT_FOUND  there is none
// TERN_ERR_BUSY       there is too little disk, memory or descriptors to send it from; later
TERN_MUST_USE enum tern_result tern_catchup_blob(struct tern_catchup *catchup,
                                                 const uint8_t sha256[TERN_SHA256_SIZE],
                                                 struct tern_blob **blob,
                                                 struct tern_download_facts *facts);
// The same without its bytes, which need not be read for it.
// TERN_ERR_NOT_FOUND  there is none
TERN_MUST_USE enum tern_result tern_catchup_know(struct tern_catchup *catchup,
                                                 const uint8_t sha256[TERN_SHA256_SIZE],
                                                 struct tern_download_facts *facts);

// Bytes of downloads and replicas in the store, and ways searched for since the start.
uint64_t tern_catchup_bytes(const struct tern_catchup *catchup);
uint64_t tern_catchup_searches(const struct tern_catchup *catchup);

#endif
