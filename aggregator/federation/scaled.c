// Updates of a merged round that were scaled down because they are far larger than the others: who is told.
#include "federation/internal.h"

static enum tern_result note(struct tern_federation *federation,
                             const struct tern_update_norm *norm)
{
    struct client *client = client_of(federation, norm->client);
    if (client == NULL) {
        return TERN_ERR_CORRUPT;
    }
    client->drift.square *= norm->scale * norm->scale; // as the mean took it
    client->row.scaled_down++;
    federation->row.scaled_down++;
    federation->counts.updates_scaled_down++;
    if (is_power_of_two(client->row.scaled_down)) {
        tern_log(TERN_LOG_WARN, "update-scaled-down",
                 "round=%u client=%llu norm=%.4g bound=%.4g count=%u", federation->row.round,
                 (unsigned long long)norm->client, norm->norm, federation->merge.norms.bound,
                 client->row.scaled_down);
    }
    return tern_clients_store(federation, norm->client);
}

enum tern_result tern_scaled_note(struct tern_federation *federation)
{
    const struct tern_update_norms *norms = &federation->merge.norms;
    for (uint32_t i = 0; i < norms->count; i++) {
        if (norms->list[i].scale < 1.0) {
            TERN_TRY(note(federation, &norms->list[i]));
        }
    }
    return TERN_OK;
}
