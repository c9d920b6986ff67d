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
};

// What a client holds: a version of the shared replica, or nothing that we know.
struct tern_plan_position {
    bool known;
    uint32_t version;
};

// delta_bytes(ctx, v): size of the delta that makes version v, 0 when it is no longer kept.
// Equal cost goes to the chain: its blobs are likelier to be in a cache.
enum tern_plan tern_plan_choose(const struct tern_plan_position *held, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx);

#endif
