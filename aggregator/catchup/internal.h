// What the files of catchup/ share. Not for anybody else.
#ifndef TERN_CATCHUP_INTERNAL_H
#define TERN_CATCHUP_INTERNAL_H

#include "catchup/blob_cache.h"
#include "catchup/catchup.h"
#include "catchup/new_blob.h"
#include "downloads/replicas.h"

// What the files below need of a client.
struct tern_holder {
    struct tern_abilities able;
    const uint8_t *replica; // that it holds; zeros = none
};

// --- The trunk (trunk.c)

// The delta that makes a version.
struct delta {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t size; // 0 = not kept
    bool codec_known;
    struct tern_codec codec; // that it was made with
};

struct tern_trunk {
    struct delta *deltas; // by version - 1, up to the present one
    uint32_t delta_capacity;
    uint8_t before
        [TERN_SHA256_SIZE]; // replica of the version before the present one; zeros = not known
    struct tern_db_download snapshot; // of the present version; size 0 = not made
    uint32_t snapshots;               // commits that may still find an old one to be forgotten
};

// --- Replicas of clients' own (own_replicas.c, own_search.c): each is led by the cheapest way to
// weights that are near enough to the global model (downloads/plan.h), and what it was given stands
// in the book of replicas (downloads/replicas.h)

// A way that was found, for others who hold the same replica and for who asks again.
struct known_way {
    uint8_t held[TERN_SHA256_SIZE];
    struct tern_abilities able;
    bool used;
    struct tern_way way;
};

// A download that was made or read while the ways of one client are compared.
struct draft {
    struct tern_db_download row;
    struct tern_blob *blob;
    double residual;
};

#define OWN_WAYS 64
#define OWN_DRAFTS 128 // in one search, of which three are for snapshots

// Searches for one client in one version. A search encodes, while everybody waits; an honest client
// needs one, and another for each of its downloads after which its power is cut.
#define OWN_SEARCHES 32

struct tern_own_replicas {
    struct tern_replica_book book;
    float *slot_memory;
    struct tern_codec snapshots[TERN_PLAN_STARTS];

    struct known_way ways[OWN_WAYS]; // to the version of ways_version
    uint32_t next_way;
    uint32_t ways_version;
    struct tern_way
        exact; // likewise, to its global model itself; leads is false: not looked for yet
    double trunk_residual; // of that version
    double global_norm;    // likewise; negative: no search has needed it

    // Of the search under way (own_search.c): where the passes have led to; NULL: there is none.
    float *weights;
    struct tern_download_buffers made; // what they encode; the scratch is the merge's
    uint8_t at[TERN_SHA256_SIZE];
    struct draft drafts[OWN_DRAFTS];
    uint32_t draft_count;
};

struct tern_catchup {
    struct tern_catchup_config config;
    struct tern_db *db;
    const struct tern_merge *merge;
    struct tern_trunk trunk;
    struct tern_own_replicas *own;
    struct tern_blob_cache cache; // of blobs in memory
    struct tern_blob_cache files; // of those in files
    bool collect_due;             // a version was made since replicas were last collected
    uint64_t searches;
};

// --- Snapshots of all weights in float32 (snapshots.c)

// Makes that of the trunk's replica, and the one that opens a replica which is the global model itself. row:
// describes it. The blob is the caller's; nothing is stored.
// TERN_ERR_BUSY  too little disk, memory or descriptors for it; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_snapshot_of_trunk(const struct tern_catchup *catchup,
                                                      struct tern_db_download *row,
                                                      struct tern_blob **blob);
TERN_MUST_USE enum tern_result tern_snapshot_of_global(const struct tern_catchup *catchup,
                                                       struct tern_db_download *row,
                                                       struct tern_blob **blob);

// --- Blobs (blobs.c)

// Reads a download from the store, into a file where it is long.
// TERN_ERR_BUSY  too little disk, memory or descriptors for that
TERN_MUST_USE enum tern_result tern_catchup_read(struct tern_catchup *catchup,
                                                 const struct tern_db_download *row,
                                                 struct tern_blob **blob);
// Stores a download that was made, unless it is there, and keeps the blob for who asks for it next.
TERN_MUST_USE enum tern_result tern_catchup_store(struct tern_catchup *catchup,
                                                  const struct tern_db_download *row,
                                                  struct tern_blob *blob);
void tern_way_add(struct tern_way *way, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t bytes);

TERN_MUST_USE enum tern_result tern_trunk_load(struct tern_catchup *catchup);
// The codec of the newest version's delta; that of the settings where it is not kept.
const struct tern_codec *tern_trunk_codec(const struct tern_catchup *catchup);
// The newest version's delta; those too old are forgotten.
TERN_MUST_USE enum tern_result tern_trunk_add(struct tern_catchup *catchup,
                                              const struct tern_db_download *download);
TERN_MUST_USE enum tern_result tern_trunk_prune(struct tern_catchup *catchup);
// A replica of the trunk was forgotten, with the deltas at its ends. ctx: the catchup.
void tern_trunk_dropped(void *ctx, uint32_t version);

// The version that a client's replica is on the trunk, and what it takes.
TERN_MUST_USE enum tern_result tern_trunk_position(struct tern_catchup *catchup,
                                                   const struct tern_holder *holder,
                                                   struct tern_plan_client *held);
// Whether the trunk leads from there to the newest version, and by the deltas alone.
enum tern_plan tern_trunk_plan(const struct tern_catchup *catchup, const struct tern_holder *holder,
                               const struct tern_plan_client *held);
// Whether the delta to the version after the one that is held can be had and read.
bool tern_trunk_has_next(const struct tern_catchup *catchup, const struct tern_holder *holder,
                         const struct tern_plan_client *held);
// Bytes of the deltas from there to the newest version, 0 where this client has no such chain; and the
// way by them, when there are some.
uint64_t tern_trunk_chain_bytes(const struct tern_catchup *catchup,
                                const struct tern_holder *holder,
                                const struct tern_plan_client *held);
void tern_trunk_chain(const struct tern_catchup *catchup, const struct tern_plan_client *held,
                      struct tern_way *way);
// The way by the next delta, and the one to the newest version.
// TERN_ERR_STATE  there is none
TERN_MUST_USE enum tern_result tern_trunk_next(struct tern_catchup *catchup,
                                               const struct tern_plan_client *held,
                                               struct tern_way *way);
TERN_MUST_USE enum tern_result tern_trunk_way(struct tern_catchup *catchup,
                                              const struct tern_holder *holder,
                                              const struct tern_plan_client *held,
                                              struct tern_way *way);

// Takes memory as the configuration says; NULL without. The merge's model is there.
struct tern_own_replicas *tern_own_new(struct tern_catchup *catchup);
void tern_own_free(struct tern_own_replicas *own);

// After the store was loaded, within no transaction: the book from the store.
TERN_MUST_USE enum tern_result tern_own_load(struct tern_catchup *catchup, uint64_t now);

// The version just made: its row, its download and its residual. Within the commit's transaction.
TERN_MUST_USE enum tern_result tern_own_version(struct tern_catchup *catchup,
                                                const struct tern_db_download *download,
                                                uint64_t now);
// Once after each commit, when the clients' rows say what they hold.
TERN_MUST_USE enum tern_result tern_own_collect(struct tern_catchup *catchup);

// The way of a client that trains. It does not lead either when the client asked for too many.
TERN_MUST_USE enum tern_result tern_own_way(struct tern_catchup *catchup,
                                            const struct tern_holder *holder,
                                            struct tern_searches *searches, bool newest,
                                            uint64_t now, struct tern_way *way);
// The way to the global model itself, the same for all: its snapshot.
TERN_MUST_USE enum tern_result tern_own_exact(struct tern_catchup *catchup, uint64_t now,
                                              struct tern_way *way);
// Whether one that can take neither the trunk's snapshots nor its chain has no way at all, now or
// later, under either plan.
TERN_MUST_USE enum tern_result tern_own_is_stranded(struct tern_catchup *catchup,
                                                    const struct tern_holder *holder,
                                                    bool *stranded);

// Euclidean norm of a - b, added up in double from first to last.
double tern_own_residual(const float *a, const float *b, uint32_t count);

// Whether there is such a pass, and a client of these abilities reads it.
bool tern_own_pass_reads(const struct tern_catchup *catchup, const struct tern_abilities *able,
                         enum tern_plan_pass pass);

// Finds the cheapest way from what a client holds, and stores what is new of it (own_search.c).
TERN_MUST_USE enum tern_result tern_own_search(struct tern_catchup *catchup,
                                               const struct tern_holder *holder,
                                               const uint8_t *held, bool newest, uint64_t now,
                                               struct tern_way *way);

// Finds, or makes and stores, the snapshot of the global model itself (own_search.c).
TERN_MUST_USE enum tern_result tern_own_open_exact(struct tern_catchup *catchup, uint64_t now,
                                                   struct tern_way *way);

#endif
