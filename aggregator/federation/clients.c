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
    struct tern_tags_lot *lots = realloc(federation->clients.lots, capacity * sizeof lots[0]);
    if (lots == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.lots = lots;
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
    const struct tern_db_client before = client->row;
    federation->clients.changed = true;
    memcpy(client->stored_replica, row->replica, TERN_SHA256_SIZE);
    if (client->dirty) { // newer than the store
        client->row.revoked = row->revoked;
        memcpy(client->row.tags, row->tags, sizeof client->row.tags);
    } else {
        client->row = *row;
    }
    tern_column_names_move(&federation->clients.column_names,
                           before.revoked ? 0 : before.column_names,
                           client->row.revoked ? 0 : client->row.column_names);
    federation->clients.revoked += client->row.revoked - before.revoked;
    federation->kept.evaluated_is_known &= client->row.revoked == before.revoked;
    federation->clients.evaluators += client->row.evaluator - before.evaluator;
    federation->clients.unreliable +=
        tern_is_unreliable(client->row.unreported) - tern_is_unreliable(before.unreported);
    return TERN_OK;
}

enum tern_result tern_clients_load(struct tern_federation *federation)
{
    struct tern_db_client row;
    struct tern_db_rows *rows = tern_db_clients(federation->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, tern_clients_remember(federation, &row));
    }
    TERN_TRY(tern_db_end(rows));
    // Clients whose enrolment was rolled back: nobody was told their tokens.
    federation->ports.dismiss(federation->ports.ctx, (uint64_t)federation->clients.count + 1);
    return TERN_OK;
}

enum tern_result tern_clients_load_evaluations(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        memset(federation->clients.list[i].evaluated, 0,
               sizeof federation->clients.list[i].evaluated);
    }
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations_from(federation->db, 0);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL && row.version > client->evaluated[row.model]) {
            client->evaluated[row.model] = row.version;
        }
    }
    return tern_db_end(rows);
}

// --- Writing back

static enum tern_result store_row(struct tern_federation *federation,
                                  const struct tern_db_client *row)
{
    uint8_t *before = client_of(federation, row->id)->stored_replica;
    if (memcmp(before, row->replica, TERN_SHA256_SIZE) != 0) {
        TERN_TRY(tern_db_replica_suspect(federation->db, before, true));
    }
    TERN_TRY(tern_db_client_update(federation->db, row));
    memcpy(before, row->replica, TERN_SHA256_SIZE);
    return TERN_OK;
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

// A round that waits for a member which does not come waits until its deadline.
#define PATIENCE_SHARE 4 // of that

uint64_t tern_clients_patience_ms(const struct tern_federation *federation)
{
    return federation->config.round.deadline_ms / PATIENCE_SHARE;
}

// One that was provisioned and has not come yet is still with the factory.
bool tern_clients_trains(const struct tern_federation *federation, const struct client *client)
{
    return !client->row.evaluator && !client->row.revoked && client->row.last_seen_ms != 0 &&
           tern_epoch_can(federation, &client->row) &&
           tern_tags_fit(client->row.tags, &federation->config.tags);
}

// Later than its enrolment, even within its millisecond or after the clock was set back: so it is known
// that it came.
void tern_clients_seen(struct client *client, uint64_t now)
{
    struct tern_db_client *row = &client->row;
    row->last_seen_ms = now > row->created_ms ? now : row->created_ms + 1;
    client->absent_ms = 0;
}

void tern_clients_move_seen(struct client *client, uint64_t ms)
{
    struct tern_db_client *row = &client->row;
    if (row->last_seen_ms > row->created_ms) {
        row->last_seen_ms = ms > row->created_ms ? ms : row->created_ms + 1;
    } else {
        row->last_seen_ms = ms < row->created_ms ? ms : row->created_ms;
    }
}

bool tern_clients_differ(const struct tern_federation *federation, const struct client *client)
{
    return tern_column_names_differ(&federation->clients.column_names, client->row.column_names);
}

bool tern_clients_came(const struct tern_federation *federation, const struct client *client,
                       uint64_t now)
{
    return tern_selection_came(client->row.created_ms, client->row.last_seen_ms,
                               federation->config.round.come_back_min_ms, now);
}

bool tern_clients_may_train(const struct tern_federation *federation, const struct client *client,
                            uint64_t now)
{
    uint64_t within = federation->config.eligible_within_ms;
    bool recent = within == 0 || client->row.last_seen_ms + within >= now;
    return tern_clients_trains(federation, client) && !tern_statistics_lacks(client) &&
           tern_epoch_admits(federation, &client->row) &&
           (client->waiting || (recent && tern_clients_came(federation, client, now)));
}

bool tern_clients_is_absent(const struct client *client, uint64_t now)
{
    return client->absent_ms != 0 && client->absent_ms <= now && !client->waiting;
}

uint32_t tern_clients_trainers(const struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        count +=
            tern_clients_trains(federation, client) && tern_clients_came(federation, client, now);
    }
    return count;
}

uint32_t tern_clients_untold(const struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        count += tern_clients_trains(federation, client) &&
                 tern_clients_came(federation, client, now) && !client->has_statistics;
    }
    return count;
}

uint32_t tern_clients_told(const struct tern_federation *federation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        count += client->has_statistics && tern_clients_trains(federation, client);
    }
    return count;
}

// Leaves those of clients.eligible[0..count) that are so; returns how many.
static uint32_t keep(struct tern_federation *federation, uint32_t count, uint64_t now,
                     bool (*is_so)(const struct client *client, uint64_t now))
{
    uint64_t *ids = federation->clients.eligible;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_so(client_of(federation, ids[i]), now)) {
            ids[kept++] = ids[i];
        }
    }
    return kept;
}

static bool is_there(const struct client *client, uint64_t now)
{
    return !tern_clients_is_absent(client, now);
}

static bool is_reliable(const struct client *client, uint64_t now)
{
    (void)now;
    return !tern_is_unreliable(client->row.unreported);
}

static bool is_unreliable(const struct client *client, uint64_t now)
{
    return !is_reliable(client, now);
}

uint32_t tern_clients_drawable(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        if (tern_clients_may_train(federation, &federation->clients.list[i], now)) {
            federation->clients.eligible[count++] = (uint64_t)i + 1;
        }
    }
    return count;
}

// A round of fewer than this many would be the model of the few that are reliable. A quorum that was set is
// meant; the usual one is a share of the cohort, which may be larger than the federation.
static uint32_t least_reliable(const struct tern_federation *federation)
{
    const uint32_t clients = federation->config.min_clients;
    const uint32_t quorum = federation->config.round.quorum;
    return clients > quorum ? clients : quorum;
}

uint32_t tern_clients_eligible(struct tern_federation *federation, uint64_t now)
{
    const uint32_t drawable = tern_clients_drawable(federation, now);
    if (federation->clients.unreliable == 0) {
        return drawable;
    }
    const uint32_t reliable = keep(federation, drawable, now, is_reliable);
    return reliable >= least_reliable(federation) ? reliable
                                                  : tern_clients_drawable(federation, now);
}

uint32_t tern_clients_present(struct tern_federation *federation, uint64_t now)
{
    return keep(federation, tern_clients_eligible(federation, now), now, is_there);
}

uint32_t tern_clients_unreliable(struct tern_federation *federation, uint64_t now)
{
    const uint32_t count =
        keep(federation, tern_clients_drawable(federation, now), now, is_unreliable);
    return keep(federation, count, now, is_there);
}
