// Clients in memory: loaded from the store, written back, and which of them may be drawn for a
// round.
#include "federation/internal.h"

#include <stdlib.h>
#include <string.h>

// The limit of the setting is for enrolments; clients that are there already, from a time of a
// higher one or made by the command line, must not stop the service. This bounds a damaged file.
#define CLIENTS_MAX 100000000u

static enum tern_result make_client_room(struct tern_federation *federation, uint64_t id)
{
    if (id > CLIENTS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    if (id <= federation->clients.capacity) {
        return TERN_OK;
    }
    uint32_t capacity = federation->clients.capacity == 0 ? 64 : federation->clients.capacity;
    while (capacity < id) {
        capacity *= 2;
    }
    struct client *rows = realloc(federation->clients.rows, capacity * sizeof rows[0]);
    if (rows == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.rows = rows;
    memset(rows + federation->clients.capacity, 0,
           (capacity - federation->clients.capacity) * sizeof rows[0]);
    uint64_t *eligible = realloc(federation->clients.eligible, capacity * sizeof eligible[0]);
    if (eligible == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.eligible = eligible;
    struct tern_member *members =
        realloc(federation->machine.members, capacity * sizeof members[0]);
    if (members == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->machine.members = members;
    federation->machine.member_capacity = capacity;
    federation->clients.capacity = capacity;
    return TERN_OK;
}

enum tern_result tern_clients_remember(struct tern_federation *federation,
                                       const struct tern_db_client *row)
{
    TERN_TRY(make_client_room(federation, row->id));
    TERN_TRY(federation->ports.admit(federation->ports.ctx, row));
    if (row->id > federation->clients.count) {
        federation->clients.count = (uint32_t)row->id;
    }
    struct client *client = &federation->clients.rows[row->id - 1];
    client->evaluator = row->evaluator;
    client->revoked = row->revoked;
    federation->clients.changed = true;
    // What is dirty here is newer than the store.
    if (!client->dirty) {
        client->last_seen_ms = row->last_seen_ms;
        client->steps_per_second = row->steps_per_second;
        client->version = row->version;
        client->holder.able = (struct tern_abilities){.codecs = row->codecs,
                                                      .coders = row->coders,
                                                      .downloads_max = row->downloads_max,
                                                      .from_seed = row->from_seed,
                                                      .step_ahead = row->step_ahead};
        client->metered = row->metered;
        client->budgeted = row->budgeted;
        client->budget_left = row->budget_left;
        client->budget_spent = row->budget_spent;
        client->budget_renewed = row->budget_renewed;
        client->power = row->power;
        memcpy(client->holder.replica, row->replica, TERN_SHA256_SIZE);
    }
    return TERN_OK;
}

struct loading {
    struct tern_federation *federation;
    enum tern_result result;
};

static bool reload_client(void *ctx, const struct tern_db_client *row)
{
    struct loading *loading = ctx;
    loading->result = tern_clients_remember(loading->federation, row);
    return loading->result == TERN_OK;
}

enum tern_result tern_clients_load(struct tern_federation *federation)
{
    struct loading loading = {federation, TERN_OK};
    uint32_t before = federation->clients.count;
    federation->clients.count = 0;
    enum tern_result result = tern_db_client_each(federation->db, reload_client, &loading);
    result = result != TERN_OK ? result : loading.result;
    if (result != TERN_OK) {
        federation->clients.count = before;
        return result;
    }
    // Clients whose enrolment was rolled back: nobody was told their tokens.
    if (federation->clients.count < before) {
        federation->ports.dismiss(federation->ports.ctx, (uint64_t)federation->clients.count + 1);
        memset(&federation->clients.rows[federation->clients.count], 0,
               (before - federation->clients.count) * sizeof federation->clients.rows[0]);
    }
    return TERN_OK;
}

static bool load_evaluation(void *ctx, const struct tern_db_evaluation *row)
{
    struct client *client = client_of(ctx, row->client);
    if (client != NULL && row->version > client->evaluated) {
        client->evaluated = row->version;
    }
    return true;
}

enum tern_result tern_clients_load_evaluations(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        federation->clients.rows[i].evaluated = 0;
    }
    return tern_db_evaluation_each(federation->db, load_evaluation, federation);
}

// --- Writing back

static enum tern_result store_row(struct tern_federation *federation, uint64_t id,
                                  const struct client *client)
{
    struct tern_db_client row;
    // Read first: another process may have revoked it since.
    TERN_TRY(tern_db_client_get(federation->db, id, &row));
    row.last_seen_ms = client->last_seen_ms;
    row.steps_per_second = client->steps_per_second;
    row.version = client->version;
    row.codecs = client->holder.able.codecs;
    row.coders = client->holder.able.coders;
    row.downloads_max = client->holder.able.downloads_max;
    row.from_seed = client->holder.able.from_seed;
    row.step_ahead = client->holder.able.step_ahead;
    row.metered = client->metered;
    row.budgeted = client->budgeted;
    row.budget_left = client->budget_left;
    row.budget_spent = client->budget_spent;
    row.budget_renewed = client->budget_renewed;
    row.power = client->power;
    if (memcmp(row.replica, client->holder.replica, TERN_SHA256_SIZE) != 0) {
        TERN_TRY(tern_db_replica_suspect(federation->db, row.replica, true));
        memcpy(row.replica, client->holder.replica, TERN_SHA256_SIZE);
    }
    return tern_db_client_update(federation->db, &row);
}

// What could not be stored is dropped, and comes from the store again: kept, it would fail every
// batch from then on. The client's next check-in says the same anew.
enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    enum tern_result result = store_row(federation, id, client);
    client->dirty = client->dirty && result == TERN_OK;
    return result;
}

// --- Who may be drawn

// One that was provisioned and has not come yet is still with the factory: rounds that wait for it
// would wait until their deadline.
static bool is_trainer(const struct client *client)
{
    return !client->evaluator && !client->revoked && client->last_seen_ms != 0;
}

bool tern_clients_may_train(const struct tern_federation *federation, const struct client *client,
                            uint64_t now)
{
    uint64_t within = federation->config.eligible_within_ms;
    bool recent = within == 0 || client->last_seen_ms + within >= now;
    return is_trainer(client) && recent;
}

uint32_t tern_clients_trainers(const struct tern_federation *federation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        count += is_trainer(&federation->clients.rows[i]);
    }
    return count;
}

uint32_t tern_clients_eligible(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        if (tern_clients_may_train(federation, &federation->clients.rows[i], now)) {
            federation->clients.eligible[count++] = (uint64_t)i + 1;
        }
    }
    return count;
}
