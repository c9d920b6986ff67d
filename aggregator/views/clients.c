// Clients, the rounds of one client, the schedule and the error ledger.
#include "views/view.h"

#include "rounds/error_policy.h"
#include "rounds/error_watch.h"
#include "rounds/reliability.h"
#include <string.h>

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// What is left of a budget: less what the tasks since the client reported it are expected to take.
static uint64_t budget_left(const struct tern_db_client *client)
{
    return client->budget_left > client->budget_spent ? client->budget_left - client->budget_spent
                                                      : 0;
}

static uint32_t first_limit(const struct tern_view_query *query)
{
    return query->limit != 0 ? query->limit : UINT32_MAX;
}

static uint32_t after(const struct tern_view_query *query)
{
    return query->client != 0 ? (uint32_t)(query->client - 1) : (uint32_t)query->after;
}

// Whether the row of this client is one of those that the query wants.
static bool is_wanted(const struct tern_view_query *query, uint64_t client)
{
    return query->client == 0 || query->client == client;
}

// Ends what was begun; the first error counts.
static enum tern_result end(struct tern_db_rows *rows, bool begun, enum tern_result result)
{
    const enum tern_result ended = begun ? tern_db_end(rows) : TERN_OK;
    return result == TERN_OK ? ended : result;
}

// --- Clients

struct client_row {
    struct tern_db_client client;
    struct tern_db_schedule schedule;
    struct tern_db_ledger ledger;
    struct tern_db_client_total total;
    bool has_schedule;
    bool has_ledger;
    uint32_t usual; // tag of most clients' column names
};

struct clients_state {
    struct tern_db_rows *clients;
    bool begun;
    struct tern_view_beside schedules;
    struct tern_view_beside ledgers;
    struct tern_view_beside totals;
    struct client_row next; // of the tables beside the clients
    uint32_t usual;
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

#define VALUE(...) TERN_VIEW_GETTER(client_row, clients, __VA_ARGS__)
#define STORED(...)
#include "views/clients.def"

static const struct tern_view_column client_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(clients, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(client_row, __VA_ARGS__)
#include "views/clients.def"
};

static enum tern_result open_clients(struct tern_view_rows *rows)
{
    struct clients_state *state = rows->state;
    struct tern_db_column_names names;
    const uint32_t behind = after(&rows->query);
    TERN_TRY(tern_db_column_names(rows->db, &names));
    state->usual = names.usual;
    state->begun = true;
    state->clients = tern_db_clients_after(rows->db, behind, first_limit(&rows->query));
    state->schedules.rows = tern_db_schedules_after(rows->db, behind);
    state->ledgers.rows = tern_db_ledgers_after(rows->db, behind);
    state->totals.rows = tern_db_client_totals(rows->db);
    return TERN_OK;
}

static bool next_client(struct tern_view_rows *rows, void *at)
{
    struct clients_state *state = rows->state;
    struct client_row *row = at;
    if (!tern_db_next(state->clients, &row->client) || !is_wanted(&rows->query, row->client.id)) {
        return false;
    }
    const uint64_t id = row->client.id;
    row->usual = state->usual;
    row->has_schedule = tern_view_step(&state->schedules, &state->next.schedule, sizeof id, id);
    if (row->has_schedule) {
        row->schedule = state->next.schedule;
    }
    row->has_ledger = tern_view_step(&state->ledgers, &state->next.ledger, sizeof id, id);
    if (row->has_ledger) {
        row->ledger = state->next.ledger;
    }
    if (tern_view_step(&state->totals, &state->next.total, sizeof id, id)) {
        row->total = state->next.total;
    }
    return true;
}

static enum tern_result close_clients(struct tern_view_rows *rows)
{
    const struct clients_state *state = rows->state;
    enum tern_result result = end(state->clients, state->begun, TERN_OK);
    result = end(state->schedules.rows, state->begun, result);
    result = end(state->ledgers.rows, state->begun, result);
    return end(state->totals.rows, state->begun, result);
}

static enum tern_result newest_client(struct tern_db *db, uint64_t *key)
{
    struct tern_db_counts counts;
    TERN_TRY(tern_db_counts(db, 0, &counts));
    *key = counts.clients; // ids have no gaps
    return TERN_OK;
}

const struct tern_view tern_view_clients = {
    .name = "clients",
    .key = "id",
    .usual = "id,name,state,last_seen_ms,version,local_steps,scaled_down,finding,tags",
    .columns = client_columns,
    .count = COUNT(client_columns),
    .row_size = sizeof(struct client_row),
    .state_size = sizeof(struct clients_state),
    .open = open_clients,
    .next = next_client,
    .close = close_clients,
    .newest = newest_client,
};

// --- Rounds of one client

struct client_round_row {
    struct tern_db_assignment assignment;
    struct tern_db_meter meter;
};

struct client_rounds_state {
    uint32_t round; // that was searched last
    uint32_t end;
    enum tern_result result;
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

// `limit` counts the rounds that are searched.
static enum tern_result open_client_rounds(struct tern_view_rows *rows)
{
    struct client_rounds_state *state = rows->state;
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(rows->db, &newest)));
    state->round = (uint32_t)rows->query.after;
    const uint32_t left = newest.round > state->round ? newest.round - state->round : 0;
    const uint32_t limit = first_limit(&rows->query);
    state->end = state->round + (left < limit ? left : limit);
    return TERN_OK;
}

// Searches by the keys of rounds: an index of assignments by client would cost a write in each round.
static bool next_client_round(struct tern_view_rows *rows, void *at)
{
    struct client_rounds_state *state = rows->state;
    struct client_round_row *row = at;
    const uint64_t client = rows->query.client;
    while (state->round < state->end && state->result == TERN_OK) {
        const enum tern_result found =
            tern_db_assignment_get(rows->db, ++state->round, client, &row->assignment);
        state->result = tern_db_may_miss(found);
        if (found == TERN_OK) {
            state->result = tern_db_meter_of(rows->db, client, state->round, &row->meter);
            return state->result == TERN_OK;
        }
    }
    return false;
}

static enum tern_result close_client_rounds(struct tern_view_rows *rows)
{
    return ((const struct client_rounds_state *)rows->state)->result;
}

const struct tern_view tern_view_client_rounds = {
    .name = "rounds of a client",
    .key = "round",
    .usual = "round,state,local_steps,tasked_ms,reported_ms,wire_up,wire_down",
    .nothing = "was not selected by any round yet",
    .columns = client_round_columns,
    .count = COUNT(client_round_columns),
    .row_size = sizeof(struct client_round_row),
    .state_size = sizeof(struct client_rounds_state),
    .open = open_client_rounds,
    .next = next_client_round,
    .close = close_client_rounds,
};

// --- Schedule

struct schedule_row {
    struct tern_db_schedule schedule;
    struct tern_db_client client;
};

// Of the schedule and of the ledger: a table, and the clients of its rows.
struct table_state {
    struct tern_db_rows *table;
    bool begun;
    struct tern_view_beside clients;
    struct tern_db_client client; // the next
    uint32_t closed;              // rounds that are over
};

static void begin_table(struct tern_view_rows *rows, struct tern_db_rows *table)
{
    struct table_state *state = rows->state;
    state->begun = true;
    state->table = table;
    state->clients.rows = tern_db_clients_after(rows->db, after(&rows->query), UINT32_MAX);
}

static void take_client(struct table_state *state, uint64_t id, struct tern_db_client *client)
{
    if (tern_view_step(&state->clients, &state->client, sizeof id, id)) {
        *client = state->client;
    }
}

static enum tern_result close_table(struct tern_view_rows *rows)
{
    const struct table_state *state = rows->state;
    return end(state->clients.rows, state->begun, end(state->table, state->begun, TERN_OK));
}

#define VALUE(...) TERN_VIEW_GETTER(schedule_row, schedule, __VA_ARGS__)
#define STORED(...)
#include "views/schedule.def"

static const struct tern_view_column schedule_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(schedule, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(schedule_row, __VA_ARGS__)
#include "views/schedule.def"
};

static enum tern_result open_schedule(struct tern_view_rows *rows)
{
    begin_table(rows, tern_db_schedules_after(rows->db, after(&rows->query)));
    return TERN_OK;
}

static bool next_schedule(struct tern_view_rows *rows, void *at)
{
    struct table_state *state = rows->state;
    struct schedule_row *row = at;
    if (!tern_db_next(state->table, &row->schedule) ||
        !is_wanted(&rows->query, row->schedule.client)) {
        return false;
    }
    take_client(state, row->schedule.client, &row->client);
    return true;
}

const struct tern_view tern_view_schedule = {
    .name = "schedule",
    .key = "client",
    .usual = "client,name,local_steps,codec,reason",
    .nothing = "has not had a task yet",
    .columns = schedule_columns,
    .count = COUNT(schedule_columns),
    .row_size = sizeof(struct schedule_row),
    .state_size = sizeof(struct table_state),
    .open = open_schedule,
    .next = next_schedule,
    .close = close_table,
};

// --- Error ledger

struct ledger_row {
    struct tern_db_ledger ledger;
    struct tern_db_client client;
    uint32_t closed; // rounds that are over
};

#define VALUE(...) TERN_VIEW_GETTER(ledger_row, ledger, __VA_ARGS__)
#define STORED(...)
#include "views/ledger.def"

static const struct tern_view_column ledger_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(ledger, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(ledger_row, __VA_ARGS__)
#include "views/ledger.def"
};

static enum tern_result open_ledger(struct tern_view_rows *rows)
{
    struct table_state *state = rows->state;
    struct tern_db_round last = {.state = TERN_ROUND_COMMITTED};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(rows->db, &last)));
    state->closed = last.state == TERN_ROUND_OPEN ? last.round - 1 : last.round;
    begin_table(rows, tern_db_ledgers_after(rows->db, after(&rows->query)));
    return TERN_OK;
}

// A row without any of this only shows that its client had a task.
static bool has_buffer(const struct tern_db_ledger *row)
{
    return row->generation != 0 || row->sequence > 0 || row->norm != 0.0F || row->round > 0 ||
           row->finding != TERN_FINDING_NONE;
}

static bool next_ledger(struct tern_view_rows *rows, void *at)
{
    struct table_state *state = rows->state;
    struct ledger_row *row = at;
    do {
        if (!tern_db_next(state->table, &row->ledger) ||
            !is_wanted(&rows->query, row->ledger.client)) {
            return false;
        }
    } while (!has_buffer(&row->ledger));
    row->closed = state->closed;
    take_client(state, row->ledger.client, &row->client);
    return true;
}

const struct tern_view tern_view_ledger = {
    .name = "ledger",
    .key = "client",
    .usual = "client,norm,round,age,update_bytes,finding,reason",
    .nothing = "has not reported an error buffer yet",
    .columns = ledger_columns,
    .count = COUNT(ledger_columns),
    .row_size = sizeof(struct ledger_row),
    .state_size = sizeof(struct table_state),
    .open = open_ledger,
    .next = next_ledger,
    .close = close_table,
};
