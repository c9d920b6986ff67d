// Picks the cheapest way to bring a client up to date. catchup.c calls it for every task. Pure;
// reentrant.
//
// tern_plan_choose() considers the trunk alone: the chain of the versions' deltas, and snapshots. It
// serves evaluators and a service configured to keep all clients on one replica.
// tern_plan_cheapest() also considers downloads of a client's own, and decides when a replica is near
// enough to the global model.
#ifndef TERN_DOWNLOADS_PLAN_H
#define TERN_DOWNLOADS_PLAN_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

// Downloads in one task (Task.downloads of tern.proto).
#define TERN_PLAN_MAX 64

enum tern_plan {
    TERN_PLAN_NOTHING,  // the client is there already
    TERN_PLAN_CHAIN,    // the deltas of versions from+1 .. to
    TERN_PLAN_SNAPSHOT, // one snapshot of version to
    TERN_PLAN_NONE,     // no chain that the client could take, and no snapshots either
};

// What a client holds, a version of the shared replica or nothing that we know, and what it takes.
struct tern_plan_client {
    bool known;
    uint32_t version;
    uint32_t chain_max; // deltas in one task; 0 = TERN_PLAN_MAX
    bool no_snapshots;
};

// Bytes of the deltas that lead a client to version `to`, 0 where there is no such chain for it.
// delta_bytes(ctx, v): size of the delta that makes version v, 0 when it is no longer kept or the
// client could not read it.
uint64_t tern_plan_chain_bytes(const struct tern_plan_client *client, uint32_t to,
                               uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx);

// delta_bytes: as above. Equal cost goes to the chain: its blobs are likelier to be in a cache.
enum tern_plan tern_plan_choose(const struct tern_plan_client *client, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx);

// --- The cheapest way of all

// Where passes may begin. Each pass is a delta towards the newest version.
enum tern_plan_start {
    TERN_PLAN_HELD,    // the replica that the client holds
    TERN_PLAN_SEED,    // the seed's, which every client makes by itself
    TERN_PLAN_INT8,    // a snapshot of the newest version
    TERN_PLAN_FLOAT16, // a snapshot of that codec
    TERN_PLAN_FLOAT32, // a snapshot of that codec
    TERN_PLAN_STARTS
};

// Codecs of passes. The wider ones send 2, 4, 8 times as many values as codec_down does: for who
// missed many versions one such download is fewer bytes than several small ones.
enum tern_plan_pass {
    TERN_PLAN_DOWN,
    TERN_PLAN_DOWN_2,
    TERN_PLAN_DOWN_4,
    TERN_PLAN_DOWN_8,
    TERN_PLAN_REFINE,
    TERN_PLAN_PASSES
};

struct tern_plan_question {
    uint32_t chain;                // deltas of the trunk from what is held; 0 = there is no chain
    uint64_t chain_bytes;          // of those together
    bool starts[TERN_PLAN_STARTS]; // those that this client can begin at
    uint32_t start_bytes[TERN_PLAN_STARTS]; // of the snapshot's blob; 0 for the others
    bool passes[TERN_PLAN_PASSES];          // those that there are, and that this client can read
    uint32_t passes_max;                    // with the refine codec, in one task
    uint32_t downloads_max;                 // in one task; 0 = TERN_PLAN_MAX
    double keep;                            // a residual at which what is held is near enough
    double bound;                           // at which what a way leads to is
};

struct tern_plan_ports {
    void *ctx;
    // Goes to where passes begin, making the snapshot if need be. NOT_FOUND: it cannot be had.
    enum tern_result (*begin)(void *ctx, enum tern_plan_start start, double *residual);
    // One more pass from where the last one ended: the blob's bytes, and what remains after it.
    // NON_FINITE: there is no such pass.
    enum tern_result (*pass)(void *ctx, enum tern_plan_pass codec, uint32_t *bytes,
                             double *residual);
};

enum tern_plan_kind {
    TERN_WAY_NONE,
    TERN_WAY_CHAIN,  // the trunk's, of deltas that are there
    TERN_WAY_PASSES, // from `start`, the first by `first`, all others by the refine codec
};

struct tern_plan_way {
    enum tern_plan_kind kind;
    uint64_t cost;   // bytes, with those that bring them
    bool within;     // the bound, as every chain is; else no way is, and these passes leave least
    double residual; // that passes leave
    uint32_t count;  // downloads in all

    enum tern_plan_start start; // of passes, as what follows
    enum tern_plan_pass first;
    uint32_t passes;
};

// Finds the cheapest of these ways whose residual is within the bound:
// - nothing, where what is held is near enough,
// - the chain,
// - from each start, nothing more or passes: the first by any of the codecs, all further ones by
//   the refine codec, at most passes_max of those. Where one pass is enough, wider ones are not
//   looked at. The seed is a start where it is nearer to the global model than what is held, or
//   where that cannot be had.
// Without a way within the bound, the passes that leave least; then without any TERN_WAY_NONE.
// Ways that cannot be cheaper any more are not tried. Errors: of the ports, but those named there.
TERN_MUST_USE enum tern_result tern_plan_cheapest(const struct tern_plan_question *question,
                                                  const struct tern_plan_ports *ports,
                                                  struct tern_plan_way *way);

#endif
