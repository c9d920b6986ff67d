// Chooses the cheapest downloads that bring a client up to date. catchup.c and search.c call it. Pure; reentrant.
//
// tern_plan_choose() considers only the trunk: the chain of the versions' deltas, and snapshots. It serves evaluators,
// and all clients with downloads.plan = trunk. tern_plan_cheapest() also considers downloads made for one client, and
// decides whether a replica is near enough to the global model.
#ifndef TERN_DOWNLOADS_PLAN_H
#define TERN_DOWNLOADS_PLAN_H

#include "result.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

// Most downloads in one task (Task.downloads of tern.proto).
#define TERN_PLAN_MAX 64

// A client's downloads, in order, and the replica that they make.
struct tern_path {
    bool exists; // false: no path
    // Downloads are being made; ask again when their search or snapshot has ended. All other fields are zero.
    bool pending;
    bool is_private; // off the trunk: made for this client
    uint8_t base[TERN_SHA256_SIZE];
    uint32_t base_version;
    uint32_t count;
    uint8_t sha256[TERN_PLAN_MAX][TERN_SHA256_SIZE];
    uint32_t bytes[TERN_PLAN_MAX];
};

// Appends a download to the path.
void tern_path_add(struct tern_path *path, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t bytes);

enum tern_plan {
    TERN_PLAN_NOTHING,  // the client has version `to`
    TERN_PLAN_CHAIN,    // the deltas of versions from+1 .. to
    TERN_PLAN_SNAPSHOT, // one snapshot of version `to`
    TERN_PLAN_NONE,     // the client can use neither a chain nor a snapshot
};

// A client's position on the trunk, and its abilities.
struct tern_plan_client {
    bool known; // the client has the trunk's replica of `version`
    uint32_t version;
    uint32_t chain_max; // most deltas in one task; 0 = TERN_PLAN_MAX
    bool no_snapshots;
};

// Returns the bytes of the chain of deltas from the client's version to `to`; 0 = no chain.
// delta_bytes(ctx, v): size of the delta that makes version v; 0 = deleted, or not readable by the client.
uint64_t tern_plan_chain_bytes(const struct tern_plan_client *client, uint32_t to,
                               uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx);

// Chooses the trunk's chain or a snapshot. delta_bytes: as for tern_plan_chain_bytes(). At equal cost it chooses the chain,
// whose blobs are more likely to be in a cache.
enum tern_plan tern_plan_choose(const struct tern_plan_client *client, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx);

// --- The cheapest downloads, including ones made for the client

// Most passes in one task. One pass is enough if the client decodes a codec that is fine enough.
#define TERN_PLAN_PASSES_MAX 8

// The replica at which passes begin. Each pass is a delta towards the newest version.
enum tern_plan_start {
    TERN_PLAN_REPLICA, // the client's replica
    TERN_PLAN_SEED,    // the seed's replica, which every client can compute
    TERN_PLAN_INT8,    // a snapshot of the newest version in int8
    TERN_PLAN_FLOAT16, // a snapshot of the newest version in float16
    TERN_PLAN_FLOAT32, // a snapshot of the newest version in float32
    TERN_PLAN_STARTS
};

struct tern_plan_question {
    uint32_t chain;                // deltas of the trunk from the client's replica; 0 = no chain
    uint64_t chain_bytes;          // total size of the chain's deltas
    bool starts[TERN_PLAN_STARTS]; // whether the client can begin at each start
    uint32_t start_bytes[TERN_PLAN_STARTS]; // size of the snapshot's blob; 0 for HELD and SEED
    uint32_t downloads_max;                 // most downloads in one task; 0 = TERN_PLAN_MAX
    double keep_max; // largest residual at which the client keeps its replica
    double bound;    // largest residual after downloads
};

struct tern_plan_ports {
    void *ctx;
    // Sets the weights to those of a start, and makes its snapshot if necessary. NOT_FOUND: the start is unavailable.
    enum tern_result (*begin)(void *ctx, enum tern_plan_start start, double *residual);
    // Encodes one more pass from the weights after the last pass. The pass leaves the bound, or as little as a codec that
    // the client decodes can leave. *bytes: size of the blob. *residual: in: before the pass; out: after the pass.
    // NON_FINITE: there is no such pass, or it would take more bytes than the chain.
    enum tern_result (*pass)(void *ctx, uint32_t *bytes, double *residual);
};

enum tern_plan_kind {
    TERN_CHOICE_NONE,
    TERN_CHOICE_CHAIN,  // the trunk's chain of deltas
    TERN_CHOICE_PASSES, // from `start`
};

struct tern_plan_choice {
    enum tern_plan_kind kind;
    uint64_t cost;   // bytes of the downloads and of the exchanges that bring them
    bool within;     // residual <= bound, also for a chain; false: nothing is within the bound, and
                     // these passes leave the least residual
    double residual; // of the replica after the passes
    uint32_t count;  // number of downloads

    // PASSES only:
    enum tern_plan_start start;
    uint32_t passes;
};

// Finds the cheapest of these choices whose residual is within the bound:
// - no download, if the client's replica is near enough,
// - the chain,
// - passes from the client's replica,
// - passes from the seed, if the client's replica is unavailable,
// - each snapshot, with passes where it is not near enough.
// If nothing is within the bound, it chooses the passes that leave the least residual; without any, TERN_CHOICE_NONE.
// It does not try what cannot be cheaper than the best choice so far. Errors: the ports', except those named there.
TERN_MUST_USE enum tern_result tern_plan_cheapest(const struct tern_plan_question *question,
                                                  const struct tern_plan_ports *ports,
                                                  struct tern_plan_choice *choice);

#endif
