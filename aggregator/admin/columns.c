// Rounds and clients as columns, for plots and long tables: one array for each column, in the order of the
// rows, which takes a tenth of what objects take.
#include "admin/internal.h"

#include "admin/rows.h"
#include "federation/accuracy.h"
#include "rounds/error_watch.h"
#include "util/bytes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// --- Cells

// Makes all columns, empty.
static cJSON *make_columns(const char *const names[], size_t count)
{
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; i < count; i++) {
        (void)cJSON_AddArrayToObject(object, names[i]);
    }
    return object;
}

// Cells of one row go into the columns from left to right.
struct row {
    cJSON *column;
    bool full; // memory was too short for one
};

static void put(struct row *row, cJSON *cell)
{
    if (row->column == NULL || !cJSON_AddItemToArray(row->column, cell)) {
        row->full = true;
        cJSON_Delete(cell);
        return;
    }
    row->column = row->column->next;
}

static void put_null(struct row *row)
{
    put(row, cJSON_CreateNull());
}

// Up to 2^53, as any reader of JSON takes it.
static void put_number(struct row *row, uint64_t value)
{
    put(row, cJSON_CreateNumber((double)value));
}

// Seven digits are what a float has.
static void put_real(struct row *row, double value)
{
    char text[24];
    if (!isfinite(value)) {
        put_null(row);
        return;
    }
    snprintf(text, sizeof text, "%.7g", value);
    put(row, cJSON_CreateRaw(text));
}

static void put_text(struct row *row, const char *text)
{
    put(row, cJSON_CreateString(text));
}

static enum tern_result end_row(const struct row *row)
{
    return row->full ? TERN_ERR_NO_MEMORY : TERN_OK;
}

// --- Rounds

static const char *const round_columns[] = {
    "round",          "state",        "opened_ms",     "closed_ms",   "target",    "applied",
    "mean_loss",      "median_loss",  "learning_rate", "local_steps", "accuracy",  "accuracy_model",
    "evaluated_loss", "metrics",      "participants",  "payload_up",  "http_up",   "tls_up",
    "wire_up",        "payload_down", "http_down",     "tls_down",    "wire_down", "float32",
};

// Rows of four tables side by side, each in the order of rounds.
struct rounds {
    struct tern_db *db;
    cJSON *columns;
    uint64_t float32; // bytes of the model's values
    struct tern_db_rows *totals;
    struct tern_db_round_total total; // the next
    bool has_total;
    struct tern_db_rows *evaluations;
    struct tern_db_evaluation evaluation; // the next
    bool has_evaluation;
    struct tern_judges judges;
    struct tern_db_rows *metrics;
    struct tern_db_metric metric; // the next
    bool has_metric;
    struct tern_votes votes;
};

static void next_total(struct rounds *rounds)
{
    rounds->has_total = tern_db_next(rounds->totals, &rounds->total);
}

static void next_evaluation(struct rounds *rounds)
{
    rounds->has_evaluation =
        tern_judges_next(&rounds->judges, rounds->evaluations, &rounds->evaluation);
}

static void next_metric(struct rounds *rounds)
{
    rounds->has_metric = tern_db_next(rounds->metrics, &rounds->metric);
}

static enum tern_result take_metrics(struct rounds *rounds, uint32_t version,
                                     struct tern_accuracy *accuracy)
{
    while (rounds->has_metric && rounds->metric.version <= version) {
        TERN_TRY(tern_votes_add_metric(&rounds->votes, accuracy, &rounds->metric));
        next_metric(rounds);
    }
    return TERN_OK;
}

// Takes the figure of a version's global model, or else of its replica. num_examples is 0 when neither counts.
static enum tern_result take_accuracy(struct rounds *rounds, uint32_t version,
                                      struct tern_accuracy *accuracy)
{
    *accuracy = (struct tern_accuracy){0};
    while (rounds->has_evaluation && rounds->evaluation.version < version) {
        next_evaluation(rounds);
    }
    while (rounds->has_evaluation && rounds->evaluation.version == version) {
        if (rounds->evaluation.model != accuracy->model) {
            *accuracy = (struct tern_accuracy){.model = rounds->evaluation.model};
            rounds->votes.count = 0;
        }
        TERN_TRY(tern_votes_add(&rounds->votes, accuracy, &rounds->evaluation));
        next_evaluation(rounds);
    }
    TERN_TRY(take_metrics(rounds, version, accuracy));
    tern_votes_decide(&rounds->votes, accuracy);
    return TERN_OK;
}

static void put_accuracy(struct row *row, const struct tern_accuracy *accuracy)
{
    if (accuracy->num_examples == 0) {
        put_null(row);
        put_null(row);
        put_null(row);
        put_null(row);
        return;
    }
    if (accuracy->no_accuracy) {
        put_null(row);
    } else {
        put_real(row, accuracy->accuracy);
    }
    put_text(row, tern_evaluated_name(accuracy->model));
    put_real(row, accuracy->loss);
    cJSON *metrics = cJSON_CreateObject();
    for (uint32_t i = 0; i < accuracy->metric_count; i++) {
        tern_json_float(metrics, accuracy->metrics[i].name, (float)accuracy->metrics[i].value);
    }
    put(row, metrics);
}

static void put_bytes(struct row *row, const struct tern_bytes *bytes)
{
    put_number(row, bytes->payload);
    put_number(row, bytes->http);
    put_number(row, bytes->tls);
    put_number(row, bytes->wire);
}

static void put_total(struct row *row, struct rounds *rounds, uint32_t round)
{
    static const struct tern_db_round_total nothing;
    while (rounds->has_total && rounds->total.round < round) {
        next_total(rounds);
    }
    const bool has = rounds->has_total && rounds->total.round == round;
    const struct tern_db_round_total *total = has ? &rounds->total : &nothing;
    put_number(row, total->participants);
    put_bytes(row, &total->up);
    put_bytes(row, &total->down);
    put_number(row, total->participants * rounds->float32);
}

// What is made of a round's updates is null while it is open.
static void put_result(struct row *row, const struct tern_db_round *round, float value)
{
    if (round->state == TERN_ROUND_OPEN) {
        put_null(row);
    } else {
        put_real(row, (double)value);
    }
}

static enum tern_result add_round(struct rounds *rounds, const struct tern_db_round *round)
{
    struct row row = {.column = rounds->columns->child};
    struct tern_accuracy accuracy;
    TERN_TRY(take_accuracy(rounds, round->base_version + 1, &accuracy));
    put_number(&row, round->round);
    put_text(&row, tern_round_state_name(round->state));
    put_number(&row, round->opened_ms);
    put_number(&row, round->closed_ms);
    put_number(&row, round->target);
    put_number(&row, round->applied);
    put_result(&row, round, round->mean_loss);
    put_result(&row, round, round->median_loss);
    put_real(&row, (double)round->learning_rate);
    put_result(&row, round, round->local_steps);
    put_accuracy(&row, &accuracy);
    put_total(&row, rounds, round->round);
    return end_row(&row);
}

static enum tern_result add_rounds(struct rounds *rounds, const struct admin_job *job)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds_after(rounds->db, job->after, job->limit);
    while (tern_db_next(rows, &round)) {
        tern_db_check_row(rows, add_round(rounds, &round));
    }
    return tern_db_end(rows);
}

enum tern_result tern_admin_round_columns(struct tern_service *service, struct tern_db *db,
                                          uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_service_facts facts;
    tern_service_facts(service, &facts);
    struct rounds rounds = {
        .db = db,
        .float32 = 4 * (uint64_t)facts.federation.values,
        .columns = make_columns(round_columns, sizeof round_columns / sizeof round_columns[0]),
        .totals = tern_db_round_totals_after(db, job->after),
        .evaluations = tern_db_evaluations_from(db, job->after + 1),
        .metrics = tern_db_evaluation_metrics_from(db, job->after + 1)};
    (void)now_ms;
    enum tern_result result =
        tern_judges_load(db, job->after, job->after + job->limit, &rounds.judges);
    next_total(&rounds);
    next_evaluation(&rounds);
    next_metric(&rounds);
    if (result == TERN_OK) {
        result = rounds.columns != NULL ? add_rounds(&rounds, job) : TERN_ERR_NO_MEMORY;
    }
    const enum tern_result totals = tern_db_end(rounds.totals);
    const enum tern_result evaluations = tern_db_end(rounds.evaluations);
    const enum tern_result metrics = tern_db_end(rounds.metrics);
    result = result == TERN_OK ? totals : result;
    result = result == TERN_OK ? evaluations : result;
    result = result == TERN_OK ? metrics : result;
    tern_votes_free(&rounds.votes);
    tern_judges_free(&rounds.judges);
    return tern_admin_reply_read(reply, rounds.columns, result);
}

// --- Clients

static const char *const client_columns[] = {
    "id",
    "name",
    "platform",
    "tags",
    "evaluator",
    "revoked",
    "created_ms",
    "last_seen_ms",
    "metered",
    "budget_left",
    "steps_per_second",
    "version",
    "replica",
    "error_norm",
    "error_round",
    "error_finding",
    "loss",
    "local_steps",
    "codec",
};

struct clients {
    struct tern_db *db;
    cJSON *columns;
    struct tern_db_rows *ledgers;
    struct tern_db_ledger ledger; // the next
    bool has_ledger;
    struct tern_db_rows *schedules;
    struct tern_db_schedule schedule; // the next
    bool has_schedule;
};

static void next_ledger(struct clients *clients)
{
    clients->has_ledger = tern_db_next(clients->ledgers, &clients->ledger);
}

static void next_schedule(struct clients *clients)
{
    clients->has_schedule = tern_db_next(clients->schedules, &clients->schedule);
}

static void put_budget(struct row *row, const struct tern_db_client *client)
{
    const bool some = client->budget_left > client->budget_spent;
    if (client->budgeted) {
        put_number(row, some ? client->budget_left - client->budget_spent : 0);
    } else {
        put_null(row);
    }
}

// The first digits, by which `tern-aggregator replicas` finds it.
static void put_replica(struct row *row, const uint8_t replica[TERN_SHA256_SIZE])
{
    static const uint8_t none[TERN_SHA256_SIZE];
    char text[2 * 4 + 1];
    tern_hex_encode(replica, 4, text);
    if (memcmp(replica, none, sizeof none) == 0) {
        put_null(row);
    } else {
        put_text(row, text);
    }
}

static void put_ledger(struct row *row, struct clients *clients, uint64_t client)
{
    while (clients->has_ledger && clients->ledger.client < client) {
        next_ledger(clients);
    }
    const struct tern_db_ledger *ledger = &clients->ledger;
    if (!clients->has_ledger || ledger->client != client || ledger->round == 0) {
        put_null(row);
        put_null(row);
        put_null(row);
        put_null(row);
        return;
    }
    put_real(row, (double)ledger->norm);
    put_number(row, ledger->round);
    put_text(row, tern_error_finding_name(ledger->finding));
    put_real(row, (double)ledger->loss);
}

static void put_schedule(struct row *row, struct clients *clients, uint64_t client)
{
    while (clients->has_schedule && clients->schedule.client < client) {
        next_schedule(clients);
    }
    if (!clients->has_schedule || clients->schedule.client != client) {
        put_null(row);
        put_null(row);
        return;
    }
    put_number(row, clients->schedule.local_steps);
    put_text(row, clients->schedule.codec);
}

static enum tern_result add_client(struct clients *clients, const struct tern_db_client *client)
{
    struct row row = {.column = clients->columns->child};
    put_number(&row, client->id);
    put_text(&row, client->name);
    put_text(&row, client->platform);
    put_text(&row, client->tags);
    put(&row, cJSON_CreateBool(client->evaluator));
    put(&row, cJSON_CreateBool(client->revoked));
    put_number(&row, client->created_ms);
    put_number(&row, client->last_seen_ms);
    put(&row, cJSON_CreateBool(client->metered));
    put_budget(&row, client);
    put_real(&row, (double)client->steps_per_second);
    put_number(&row, client->version);
    put_replica(&row, client->replica);
    put_ledger(&row, clients, client->id);
    put_schedule(&row, clients, client->id);
    return end_row(&row);
}

static enum tern_result add_clients(struct clients *clients, const struct admin_job *job)
{
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_clients_after(clients->db, job->after, job->limit);
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, add_client(clients, &client));
    }
    return tern_db_end(rows);
}

enum tern_result tern_admin_client_columns(struct tern_service *service, struct tern_db *db,
                                           uint64_t now_ms, void *ctx,
                                           struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct clients clients = {
        .db = db,
        .columns = make_columns(client_columns, sizeof client_columns / sizeof client_columns[0]),
        .ledgers = tern_db_ledgers_after(db, job->after),
        .schedules = tern_db_schedules_after(db, job->after)};
    (void)service;
    (void)now_ms;
    next_ledger(&clients);
    next_schedule(&clients);
    enum tern_result result =
        clients.columns != NULL ? add_clients(&clients, job) : TERN_ERR_NO_MEMORY;
    const enum tern_result ledgers = tern_db_end(clients.ledgers);
    const enum tern_result schedules = tern_db_end(clients.schedules);
    result = result == TERN_OK ? ledgers : result;
    result = result == TERN_OK ? schedules : result;
    return tern_admin_reply_read(reply, clients.columns, result);
}
