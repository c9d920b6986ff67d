#include "downloads/plan.h"

uint64_t tern_plan_chain_bytes(const struct tern_plan_client *client, uint32_t to,
                               uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx)
{
    uint32_t most = client->chain_max == 0 || client->chain_max > TERN_PLAN_MAX ? TERN_PLAN_MAX
                                                                                : client->chain_max;
    uint64_t sum = 0;
    if (!client->known || client->version > to || to - client->version > most) {
        return 0;
    }
    for (uint32_t version = client->version + 1; version <= to; version++) {
        uint32_t bytes = delta_bytes(ctx, version);
        if (bytes == 0) {
            return 0;
        }
        sum += bytes;
    }
    return sum;
}

enum tern_plan tern_plan_choose(const struct tern_plan_client *client, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx)
{
    if (client->known && client->version == to) {
        return TERN_PLAN_NOTHING;
    }
    uint64_t chain = tern_plan_chain_bytes(client, to, delta_bytes, ctx);
    if (chain != 0 && (chain <= snapshot_bytes || client->no_snapshots)) {
        return TERN_PLAN_CHAIN;
    }
    return client->no_snapshots ? TERN_PLAN_NONE : TERN_PLAN_SNAPSHOT;
}
