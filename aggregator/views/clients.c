// Lists of clients: clients, schedule, error ledger, replicas they hold; and the rounds of one client.
#include "views/view.h"

#include "rounds/error_policy.h"
#include "rounds/error_watch.h"
#include "rounds/reliability.h"
#include <string.h>

// Returns the bytes left of a budget, less the estimated bytes of tasks since the client reported it.
static uint64_t budget_left(const struct tern_db_client *client)
{
    return client->budget_left > client->budget_spent ? client->budget_left - client->budget_spent
                                                      : 0;
}

// --- Clients, with their rows of other tables

struct client_row {
    struct tern_db_client client;
    struct tern_db_schedule schedule;
    struct tern_db_ledger ledger;
    struct tern_db_client_total total;
    struct tern_db_replica replica; // only in the view `held`
    bool has_schedule;
    bool has_ledger;
    bool has_replica;
    uint32_t usual;  // tag of most clients' column names
    uint32_t closed; // number of closed rounds
};

struct clients_state {
    struct tern_db_rows *clients;
    struct tern_view_beside schedules;
    struct tern_view_beside ledgers;
    struct tern_view_beside totals;
    struct client_row next; // next rows of the other tables
    uint32_t usual;
    uint32_t closed;
};

static const char *state_of(const struct client_row *row)
{
    const struct tern_db_client *client = &row->client;
    if (client->revoked) {
        return "revoked";
    }
    if (client->evaluator) {
        return "evaluator";
    }
    if (client->column_names != 0 && client->column_names != row->usual) {
        return "other-columns";
    }
    return tern_is_unreliable(client->unreported) ? "unreliable" : "active";
}

static bool next_client(struct tern_view_rows *rows, void *at);

static enum tern_result open_clients(struct tern_view_rows *rows)
{
    struct clients_state *state = rows->state;
    struct tern_db_column_names names;
    struct tern_db_round last = {.state = TERN_ROUND_COMMITTED};
    const struct tern_view_query *query = &rows->query;
    const uint64_t after = query->client != 0 ? query->client - 1 : query->after;
    const bool all =
        query->limit == 0 || rows->view->next != next_client; // other views skip clients
    const uint32_t most = query->client != 0 ? 1 : all ? UINT32_MAX : query->limit;
    TERN_TRY(tern_db_column_names(rows->db, &names));
    TERN_TRY(tern_db_may_miss(tern_db_round_last(rows->db, &last)));
    state->usual = names.usual;
    state->closed = last.state == TERN_ROUND_OPEN ? last.round - 1 : last.round;
    state->clients = tern_view_read(rows, tern_db_clients_after(rows->db, after, most));
    state->schedules.rows = tern_view_read(rows, tern_db_schedules_after(rows->db, after));
    state->ledgers.rows = tern_view_read(rows, tern_db_ledgers_after(rows->db, after));
    state->totals.rows = tern_view_read(rows, tern_db_client_totals_from(rows->db, after + 1));
    return TERN_OK;
}

static bool next_client(struct tern_view_rows *rows, void *at)
{
    struct clients_state *state = rows->state;
    struct client_row *row = at;
    if (!tern_db_next(state->clients, &row->client)) {
        return false;
    }
    const uint64_t id = row->client.id;
    row->usual = state->usual;
    row->closed = state->closed;
    row->has_schedule = tern_view_step(&state->schedules, &state->next.schedule, sizeof id, id);
    row->has_ledger = tern_view_step(&state->ledgers, &state->next.ledger, sizeof id, id);
    row->schedule = row->has_schedule ? state->next.schedule : row->schedule;
    row->ledger = row->has_ledger ? state->next.ledger : row->ledger;
    if (tern_view_step(&state->totals, &state->next.total, sizeof id, id)) {
        row->total = state->next.total;
    }
    return true;
}

// A view of struct client_row.
// Returns how many rounds have closed since the client's last accepted update.
static uint32_t rounds_since(const struct client_row *row)
{
    return row->closed > row->ledger.round ? row->closed - row->ledger.round : 0;
}

static const char *word_of_settlement(uint32_t settlement)
{
    return settlement == TERN_SETTLEMENT_COUNTED      ? "counted"
           : settlement == TERN_SETTLEMENT_GIVEN_BACK ? "given back"
                                                      : "";
}

#define CLIENTS_VIEW(view)                                                                         \
    TERN_VIEW_COLUMNS(view##_columns), .row_size = sizeof(struct client_row),                      \
                                       .state_size = sizeof(struct clients_state),                 \
                                       .open = open_clients

#define VALUE(...) TERN_VIEW_GETTER(client_row, clients, __VA_ARGS__)
#define STORED(...)
#include "views/clients.def"

static const struct tern_view_column clients_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(clients, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(client_row, __VA_ARGS__)
#include "views/clients.def"
};

static enum tern_result newest_client(struct tern_db *db, uint64_t *key)
{
    struct tern_db_counts counts;
    TERN_TRY(tern_db_counts(db, 0, &counts));
    *key = counts.clients; // ids have no gaps
    return TERN_OK;
}

const struct tern_view tern_view_clients = {
    CLIENTS_VIEW(clients),
    .name = "clients",
    .key = "id",
    .usual = "id,name,state,last_seen_ms,version,local_steps,scaled_down,anomaly,tags",
    .next = next_client,
    .newest = newest_client,
};

// --- The schedule

#define VALUE(...) TERN_VIEW_GETTER(client_row, schedule, __VA_ARGS__)
#define STORED(...)
#include "views/schedule.def"

static const struct tern_view_column schedule_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(schedule, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(client_row, __VA_ARGS__)
#include "views/schedule.def"
};

static bool next_schedule(struct tern_view_rows *rows, void *at)
{
    const struct client_row *row = at;
    while (next_client(rows, at)) {
        if (row->has_schedule) {
            return true;
        }
    }
    return false;
}

const struct tern_view tern_view_schedule = {
    CLIENTS_VIEW(schedule),
    .name = "schedule",
    .key = "client",
    .usual = "client,name,local_steps,codec,reason",
    .nothing = "has not had a task yet",
    .next = next_schedule,
};

// --- The error ledger

#define VALUE(...) TERN_VIEW_GETTER(client_row, ledger, __VA_ARGS__)
#define STORED(...)
#include "views/ledger.def"

static const struct tern_view_column ledger_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(ledger, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(client_row, __VA_ARGS__)
#include "views/ledger.def"
};

// A ledger row without any of these values only shows that its client had a task.
static bool has_buffer(const struct tern_db_ledger *row)
{
    return row->generation != 0 || row->sequence > 0 || row->norm != 0.0F || row->round > 0 ||
           row->anomaly != TERN_ANOMALY_NONE;
}

static bool next_ledger(struct tern_view_rows *rows, void *at)
{
    const struct client_row *row = at;
    while (next_client(rows, at)) {
        if (row->has_ledger && has_buffer(&row->ledger)) {
            return true;
        }
    }
    return false;
}

const struct tern_view tern_view_ledger = {
    CLIENTS_VIEW(ledger),
    .name = "ledger",
    .key = "client",
    .usual = "client,norm,round,age,update_bytes,anomaly,reason",
    .nothing = "has not reported an error buffer yet",
    .next = next_ledger,
};

// --- The replica that each client holds

#define VALUE(...) TERN_VIEW_GETTER(client_row, held, __VA_ARGS__)
#define STORED(...)
#include "views/held.def"

static const struct tern_view_column held_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(held, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(client_row, __VA_ARGS__)
#include "views/held.def"
};

// Returns all clients that are not revoked, or the client of the query.
static bool next_held(struct tern_view_rows *rows, void *at)
{
    struct client_row *row = at;
    do {
        if (!next_client(rows, at)) {
            return false;
        }
    } while (row->client.revoked && rows->query.client == 0);
    const enum tern_result found =
        tern_db_replica_get(rows->db, row->client.replica, &row->replica);
    row->has_replica = found == TERN_OK;
    rows->result = tern_db_may_miss(found);
    return rows->result == TERN_OK;
}

const struct tern_view tern_view_held = {
    CLIENTS_VIEW(held), .name = "held",
    .key = "client",    .usual = "client,name,version,replica,known,kept_as,residual",
    .next = next_held,
};

// --- Rounds of one client

struct client_round_row {
    struct tern_db_assignment assignment;
    struct tern_db_meter meter;
};

struct client_rounds_state {
    uint32_t round; // the last round that was searched
    uint32_t end;
};

static const char *assignment_state(enum tern_db_assignment_state state)
{
    static const char *const names[] = {[TERN_ASSIGNMENT_INVITED] = "selected",
                                        [TERN_ASSIGNMENT_TASKED] = "training",
                                        [TERN_ASSIGNMENT_REPORTED] = "accepted",
                                        [TERN_ASSIGNMENT_REPLACED] = "replaced"};
    return names[state];
}

#define VALUE(...) TERN_VIEW_GETTER(client_round_row, client_rounds, __VA_ARGS__)
#define STORED(...)
#include "views/client_rounds.def"

static const struct tern_view_column client_round_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(client_rounds, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(client_round_row, __VA_ARGS__)
#include "views/client_rounds.def"
};

// `limit` counts the searched rounds.
static enum tern_result open_client_rounds(struct tern_view_rows *rows)
{
    struct client_rounds_state *state = rows->state;
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(rows->db, &newest)));
    state->round = (uint32_t)rows->query.after;
    const uint32_t left = newest.round > state->round ? newest.round - state->round : 0;
    const uint32_t limit = rows->query.limit;
    state->end = state->round + (limit != 0 && limit < left ? limit : left);
    return TERN_OK;
}

// Searches by the keys of rounds: an index of assignments by client would cost a write in each round.
static bool next_client_round(struct tern_view_rows *rows, void *at)
{
    struct client_rounds_state *state = rows->state;
    struct client_round_row *row = at;
    const uint64_t client = rows->query.client;
    while (state->round < state->end && rows->result == TERN_OK) {
        const enum tern_result found =
            tern_db_assignment_get(rows->db, ++state->round, client, &row->assignment);
        rows->result = tern_db_may_miss(found);
        if (found == TERN_OK) {
            rows->result = tern_db_meter_of(rows->db, client, state->round, &row->meter);
            return rows->result == TERN_OK;
        }
    }
    return false;
}

const struct tern_view tern_view_client_rounds = {
    .name = "rounds of a client",
    .key = "round",
    .usual = "round,state,local_steps,tasked_ms,reported_ms,wire_up,wire_down",
    .nothing = "was not selected by any round yet",
    TERN_VIEW_COLUMNS(client_round_columns),
    .row_size = sizeof(struct client_round_row),
    .state_size = sizeof(struct client_rounds_state),
    .open = open_client_rounds,
    .next = next_client_round,
};
