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
    struct client *rows = realloc(federation->clients.list, capacity * sizeof rows[0]);
    if (rows == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.list = rows;
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
    struct client *client = &federation->clients.list[row->id - 1];
    federation->clients.changed = true;
    if (client->dirty) { // newer than the store
        client->row.revoked = row->revoked;
    } else {
        client->row = *row;
    }
    return TERN_OK;
}

enum tern_result tern_clients_load(struct tern_federation *federation)
{
    struct tern_db_client row;
    uint32_t before = federation->clients.count;
    federation->clients.count = 0;
    struct tern_db_rows *rows = tern_db_clients(federation->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, tern_clients_remember(federation, &row));
    }
    enum tern_result result = tern_db_end(rows);
    if (result != TERN_OK) {
        federation->clients.count = before;
        return result;
    }
    // Clients whose enrolment was rolled back: nobody was told their tokens.
    if (federation->clients.count < before) {
        federation->ports.dismiss(federation->ports.ctx, (uint64_t)federation->clients.count + 1);
        memset(&federation->clients.list[federation->clients.count], 0,
               (before - federation->clients.count) * sizeof federation->clients.list[0]);
    }
    return TERN_OK;
}

enum tern_result tern_clients_load_evaluations(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        federation->clients.list[i].evaluated = 0;
    }
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations(federation->db);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL && row.version > client->evaluated) {
            client->evaluated = row.version;
        }
    }
    return tern_db_end(rows);
}

// --- Writing back

static enum tern_result store_row(struct tern_federation *federation,
                                  const struct tern_db_client *row)
{
    struct tern_db_client before;
    TERN_TRY(tern_db_client_get(federation->db, row->id, &before));
    if (memcmp(before.replica, row->replica, TERN_SHA256_SIZE) != 0) {
        TERN_TRY(tern_db_replica_suspect(federation->db, before.replica, true));
    }
    return tern_db_client_update(federation->db, row);
}

// What could not be stored is dropped, and comes from the store again: kept, it would fail every
// batch from then on. The client's next check-in says the same anew.
enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    enum tern_result result = store_row(federation, &client->row);
    client->dirty = client->dirty && result == TERN_OK;
    return result;
}

// --- Who may be drawn

// One that was provisioned and has not come yet is still with the factory: rounds that wait for it
// would wait until their deadline.
static bool is_trainer(const struct client *client)
{
    return !client->row.evaluator && !client->row.revoked && client->row.last_seen_ms != 0;
}

bool tern_clients_may_train(const struct tern_federation *federation, const struct client *client,
                            uint64_t now)
{
    uint64_t within = federation->config.eligible_within_ms;
    bool recent = within == 0 || client->row.last_seen_ms + within >= now;
    return is_trainer(client) && recent;
}

uint32_t tern_clients_trainers(const struct tern_federation *federation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        count += is_trainer(&federation->clients.list[i]);
    }
    return count;
}

uint32_t tern_clients_eligible(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        if (tern_clients_may_train(federation, &federation->clients.list[i], now)) {
            federation->clients.eligible[count++] = (uint64_t)i + 1;
        }
    }
    return count;
}
