#include "downloads/plan.h"

enum tern_plan tern_plan_choose(const struct tern_plan_position *held, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx)
{
    if (!held->known || held->version > to) {
        return TERN_PLAN_SNAPSHOT;
    }
    if (held->version == to) {
        return TERN_PLAN_NOTHING;
    }
    if (to - held->version > TERN_PLAN_MAX) {
        return TERN_PLAN_SNAPSHOT;
    }
    uint64_t chain = 0;
    for (uint32_t version = held->version + 1; version <= to; version++) {
        uint32_t bytes = delta_bytes(ctx, version);
        if (bytes == 0) {
            return TERN_PLAN_SNAPSHOT;
        }
        chain += bytes;
    }
    return chain <= snapshot_bytes ? TERN_PLAN_CHAIN : TERN_PLAN_SNAPSHOT;
}
