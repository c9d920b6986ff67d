// Picks the cheapest way to bring a client up to date. Who calls: the service for every task. Pure;
// reentrant.
#ifndef TERN_DOWNLOADS_PLAN_H
#define TERN_DOWNLOADS_PLAN_H

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

// delta_bytes(ctx, v): size of the delta that makes version v, 0 when it is no longer kept or the
// client could not read it. Equal cost goes to the chain: its blobs are likelier to be in a cache.
enum tern_plan tern_plan_choose(const struct tern_plan_client *client, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx);

#endif
