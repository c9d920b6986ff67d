// Counts and logs the updates of a merged round that were scaled down, for their norm or for their number of examples.
#include "federation/internal.h"

static void log_bound(const struct tern_federation *federation,
                      const struct tern_update_bound *bound, uint32_t examples, uint32_t count)
{
    const struct tern_merge *merge = &federation->merge;
    const uint32_t claimed = bound->contribution.num_examples;
    const uint32_t round = federation->row.round;
    if (examples < claimed) {
        tern_log(TERN_LOG_WARN, "examples-bounded",
                 "round=%u client=%llu claims=%u counts=%u count=%u", round,
                 (unsigned long long)bound->client, claimed, examples, count);
    }
    if (bound->scale < 1.0) {
        tern_log(TERN_LOG_WARN, "update-scaled-down",
                 "round=%u client=%llu norm=%.4g bound=%.4g count=%u", round,
                 (unsigned long long)bound->client, bound->norm, merge->bounds.norm_max, count);
    }
}

static enum tern_result note(struct tern_federation *federation,
                             const struct tern_update_bound *bound)
{
    struct client *client = client_of(federation, bound->client);
    if (client == NULL) {
        return TERN_ERR_CORRUPT;
    }
    const uint32_t examples =
        tern_strategy_examples(&federation->totals, bound->contribution.num_examples);
    client->drift.square *= bound->scale * bound->scale; // the mean applied the same scale
    client->drift.num_examples = examples;
    client->row.scaled_down++;
    federation->row.scaled_down++;
    federation->counts.updates_scaled_down++;
    if (is_power_of_two(client->row.scaled_down)) {
        log_bound(federation, bound, examples, client->row.scaled_down);
    }
    return tern_clients_store(federation, bound->client);
}

enum tern_result tern_scaled_note(struct tern_federation *federation)
{
    const struct tern_update_bounds *bounds = &federation->merge.bounds;
    for (uint32_t i = 0; i < bounds->count; i++) {
        if (tern_update_is_bounded(&bounds->list[i])) {
            TERN_TRY(note(federation, &bounds->list[i]));
        }
    }
    return TERN_OK;
}
