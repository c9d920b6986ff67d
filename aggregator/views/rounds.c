// The view of rounds: each with its meter, its evaluations and the figures of clients' held-out data.
#include "views/view.h"

#include "tensor/manifest.h"
#include "views/held_out.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct round_row {
    struct tern_db_round round;
    struct tern_db_round_total total;
    struct tern_accuracy evaluated;
    const struct tern_held_outs *held_outs;
    double score;         // NAN: unknown
    const char *score_of; // NULL: there is no score
    uint64_t model_bytes;
};

// Reads four tables side by side, each in the order of rounds.
struct rounds_state {
    struct tern_db_rows *rounds;
    struct tern_view_beside totals;
    struct tern_db_round_total total; // the next row
    struct tern_db_rows *evaluations;
    struct tern_db_evaluation evaluation; // the next row
    bool has_evaluation;
    struct tern_reported_versions versions;
    struct tern_db_rows *metrics;
    struct tern_db_metric metric; // the next row
    bool has_metric;
    struct tern_votes votes;
    struct tern_held_outs held_outs;
    bool has_held_outs;
    const char *score; // metric that rates versions: "accuracy", "r2", "auc"
    uint64_t model_bytes;
    struct held_out_names *names;
};

// With noise, clients report no loss.
static bool has_loss(const struct round_row *row)
{
    return row->round.state == TERN_ROUND_COMMITTED && row->round.noise == 0;
}

static bool is_open(const struct round_row *row)
{
    return row->round.state == TERN_ROUND_OPEN;
}

static bool is_evaluated(const struct round_row *row)
{
    return row->evaluated.num_examples > 0;
}

static bool has_score(const struct round_row *row)
{
    return row->score_of != NULL && !isnan(row->score);
}

static const char *word_of_round_state(uint32_t state)
{
    return state == TERN_ROUND_OPEN        ? "open"
           : state == TERN_ROUND_ABANDONED ? "abandoned"
                                           : "committed";
}

static const char *word_of_round_mode(uint32_t mode)
{
    return mode == TERN_ROUND_SECURE     ? "secure"
           : mode == TERN_ROUND_RESTORED ? "restored"
                                         : "plain";
}

#define VALUE(...) TERN_VIEW_GETTER(round_row, rounds, __VA_ARGS__)
#define STORED(...)
#include "views/rounds.def"

static const struct tern_view_column round_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(rounds, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(round_row, __VA_ARGS__)
#include "views/rounds.def"
};

// --- Figures of evaluators

static void next_evaluation(struct rounds_state *state)
{
    state->has_evaluation =
        tern_reported_versions_next(&state->versions, state->evaluations, &state->evaluation);
}

static void next_metric(struct rounds_state *state)
{
    state->has_metric = tern_db_next(state->metrics, &state->metric);
}

static enum tern_result take_metrics(struct rounds_state *state, uint32_t version,
                                     struct tern_accuracy *accuracy)
{
    while (state->has_metric && state->metric.version <= version) {
        TERN_TRY(tern_votes_add_metric(&state->votes, accuracy, &state->metric));
        next_metric(state);
    }
    return TERN_OK;
}

// Reads the evaluators' figures of a version's global model, or of its replica if the global model has no figures.
// num_examples is 0 if there are no figures.
static enum tern_result take_accuracy(struct rounds_state *state, uint32_t version,
                                      struct tern_accuracy *accuracy)
{
    *accuracy = (struct tern_accuracy){.version = version};
    while (state->has_evaluation && state->evaluation.version < version) {
        next_evaluation(state);
    }
    while (state->has_evaluation && state->evaluation.version == version) {
        if (state->evaluation.model != accuracy->model) {
            *accuracy =
                (struct tern_accuracy){.version = version, .model = state->evaluation.model};
            state->votes.count = 0;
        }
        TERN_TRY(tern_votes_add(&state->votes, accuracy, &state->evaluation));
        next_evaluation(state);
    }
    TERN_TRY(take_metrics(state, version, accuracy));
    tern_votes_take_medians(&state->votes, accuracy);
    return TERN_OK;
}

static void take_score(const struct rounds_state *state, struct round_row *row)
{
    struct tern_accuracy held_out;
    const struct tern_accuracy *by = &row->evaluated;
    row->score = NAN;
    if (is_evaluated(row)) {
        row->score_of = tern_evaluated_name(by->model);
    } else if (!is_open(row) && state->has_held_outs &&
               tern_held_outs_accuracy(&state->held_outs, row->round.base_version + 1, &held_out)) {
        by = &held_out;
        row->score_of = "clients";
    }
    if (row->score_of != NULL && !tern_accuracy_value(by, state->score, &row->score)) {
        row->score = NAN;
    }
}

// --- Figures of clients' held-out data, as columns

// The columns of a figure, in their order.
enum held_out_part { WEIGHTED, MEAN, DEVIATION, WORST, WORST_CLIENT, PARTS };

static const char *const part_names[PARTS] = {"", "_mean", "_deviation", "_worst", "_worst_client"};
static const char *const part_helps[PARTS] = {
    "mean over the clients' held-out data, weighted by examples",
    "unweighted mean over clients",
    "standard deviation over clients",
    "worst value of a client",
    "client with the worst value",
};

#define NAMES_MAX 32 // most names of figures, because clients may report other names in each round
#define COLUMN_NAME_MAX (TERN_DB_METRIC_MAX + 32)

struct held_out_names {
    char figures[NAMES_MAX][TERN_DB_METRIC_MAX];
    char columns[NAMES_MAX][PARTS][COLUMN_NAME_MAX];
    uint32_t count;
};

// Returns the figures of the round's base version.
static const struct tern_held_out *held_outs_of(const struct round_row *row, size_t *count)
{
    return tern_held_outs_of(row->held_outs, row->round.base_version, count);
}

static void get_held_out(const void *at, const struct tern_view_column *column,
                         struct tern_view_value *value)
{
    size_t count;
    const struct tern_held_out *of = held_outs_of(at, &count);
    const char *name = column->name + strlen("held_out_");
    const enum held_out_part part = (enum held_out_part)column->argument;
    const size_t len = strlen(name) - strlen(part_names[part]);
    while (count > 0 && (strlen(of->name) != len || strncmp(of->name, name, len) != 0)) {
        of++;
        count--;
    }
    if (count == 0) {
        return;
    }
    const struct tern_spread *spread = &of->spread;
    const double reals[PARTS] = {spread->weighted_mean, spread->mean, tern_spread_deviation(spread),
                                 spread->worst, 0};
    if (part == WORST_CLIENT) {
        TERN_VIEW_PUT_NUMBER(value, spread->worst_client);
    } else {
        TERN_VIEW_PUT_REAL(value, reals[part]);
    }
}

// Returns the figure that most clients reported; NULL: no client reported a figure.
static const struct tern_held_out *most_reported(const struct round_row *row)
{
    size_t count;
    const struct tern_held_out *of = held_outs_of(row, &count);
    const struct tern_held_out *most = of;
    for (size_t i = 0; i < count; i++) {
        most = of[i].spread.clients > most->spread.clients ? &of[i] : most;
    }
    return most;
}

static void get_held_out_clients(const void *row, const struct tern_view_column *column,
                                 struct tern_view_value *value)
{
    const struct tern_held_out *most = most_reported(row);
    (void)column;
    if (most != NULL) {
        TERN_VIEW_PUT_NUMBER(value, most->spread.clients);
    }
}

static void get_held_out_model(const void *row, const struct tern_view_column *column,
                               struct tern_view_value *value)
{
    const struct tern_held_out *most = most_reported(row);
    (void)column;
    if (most != NULL) {
        TERN_VIEW_PUT_TEXT(value, tern_evaluated_name(most->model));
    }
}

static enum tern_result add_figure(struct tern_view_rows *rows, struct held_out_names *names,
                                   const char *figure)
{
    const uint32_t at = names->count;
    for (uint32_t i = 0; i < at; i++) {
        if (strcmp(names->figures[i], figure) == 0) {
            return TERN_OK;
        }
    }
    if (at == NAMES_MAX) {
        return TERN_OK;
    }
    memcpy(names->figures[names->count++], figure, TERN_DB_METRIC_MAX);
    for (uint32_t part = 0; part < PARTS; part++) {
        snprintf(names->columns[at][part], COLUMN_NAME_MAX, "held_out_%s%s", figure,
                 part_names[part]);
        const struct tern_view_column column = {
            .name = names->columns[at][part],
            .kind = part == WORST_CLIENT ? TERN_VIEW_NUMBER : TERN_VIEW_REAL,
            .format = part == WORST_CLIENT ? TERN_VIEW_PLAIN : TERN_VIEW_SCORE,
            .help = part_helps[part],
            .get = get_held_out,
            .argument = part};
        TERN_TRY(tern_view_add_column(rows, &column));
    }
    return TERN_OK;
}

static enum tern_result add_figures(struct tern_view_rows *rows, const struct tern_held_outs *all,
                                    struct held_out_names *names)
{
    static const struct tern_view_column others[] = {
        {.name = "held_out_clients",
         .kind = TERN_VIEW_NUMBER,
         .help = "clients that reported figures on held-out data",
         .get = get_held_out_clients},
        {.name = "held_out_model",
         .kind = TERN_VIEW_TEXT,
         .help = "weights that clients measured on held-out data: replica or global",
         .get = get_held_out_model}};
    for (size_t i = 0; i < all->count; i++) {
        TERN_TRY(add_figure(rows, names, all->list[i].name));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0] && names->count > 0; i++) {
        TERN_TRY(tern_view_add_column(rows, &others[i]));
    }
    return TERN_OK;
}

// --- The view

static enum tern_result load_model(struct tern_view_rows *rows)
{
    struct rounds_state *state = rows->state;
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(rows->db, &federation));
    state->score = tern_accuracy_name(federation.model_spec);
    struct tern_model *model = malloc(sizeof *model);
    if (model == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (tern_model_build(model, federation.model_spec, federation.manifest, federation.manifest_len,
                         federation.model_hash) == TERN_OK) {
        state->model_bytes = 4 * (uint64_t)model->count;
    }
    free(model);
    return TERN_OK;
}

// Replaces the heading SCORE by ACCURACY, R2 or AUC.
static void set_heading(struct tern_view_rows *rows, const char *score)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->columns[i].name, "score") == 0) {
            rows->columns[i].heading = strcmp(score, "r2") == 0    ? "R2"
                                       : strcmp(score, "auc") == 0 ? "AUC"
                                                                   : "ACCURACY";
        }
    }
}

static enum tern_result load_held_outs(struct tern_view_rows *rows, uint32_t first, uint32_t last)
{
    struct rounds_state *state = rows->state;
    if (!tern_view_wants(rows, "held_out_") && !tern_view_wants(rows, "score")) {
        return TERN_OK;
    }
    state->names = calloc(1, sizeof *state->names);
    if (state->names == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_held_outs_load(rows->db, first, last, &state->held_outs));
    state->has_held_outs = true;
    return add_figures(rows, &state->held_outs, state->names);
}

static enum tern_result open_rounds(struct tern_view_rows *rows)
{
    struct rounds_state *state = rows->state;
    const struct tern_view_query *query = &rows->query;
    const uint32_t after = (uint32_t)query->after;
    const uint32_t limit = query->limit != 0 ? query->limit : UINT32_MAX - after;
    const uint32_t last = after + limit;
    TERN_TRY(load_model(rows));
    set_heading(rows, state->score);
    TERN_TRY(load_held_outs(rows, after, last));
    TERN_TRY(tern_reported_versions_load(rows->db, after, last, &state->versions));
    state->rounds = tern_view_read(rows, tern_db_rounds_after(rows->db, after, limit));
    state->totals.rows = tern_view_read(rows, tern_db_round_totals_after(rows->db, after));
    state->evaluations = tern_view_read(rows, tern_db_evaluations_from(rows->db, after + 1));
    state->metrics = tern_view_read(rows, tern_db_evaluation_metrics_from(rows->db, after + 1));
    next_evaluation(state);
    next_metric(state);
    return TERN_OK;
}

static bool next_round(struct tern_view_rows *rows, void *at)
{
    struct rounds_state *state = rows->state;
    struct round_row *row = at;
    if (rows->result != TERN_OK || !tern_db_next(state->rounds, &row->round)) {
        return false;
    }
    rows->result = take_accuracy(state, row->round.base_version + 1, &row->evaluated);
    if (tern_view_step(&state->totals, &state->total, sizeof row->round.round, row->round.round)) {
        row->total = state->total;
    }
    row->held_outs = &state->held_outs;
    row->model_bytes = state->model_bytes;
    take_score(state, row);
    return rows->result == TERN_OK;
}

static void close_rounds(struct tern_view_rows *rows)
{
    struct rounds_state *state = rows->state;
    tern_votes_free(&state->votes);
    tern_reported_versions_free(&state->versions);
    tern_held_outs_free(&state->held_outs);
    free(state->names);
}

static enum tern_result newest_round(struct tern_db *db, uint64_t *key)
{
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &newest)));
    *key = newest.round;
    return TERN_OK;
}

const struct tern_view tern_view_rounds = {
    .name = "rounds",
    .key = "round",
    .usual = "round,state,updates,mean_loss,score,score_of,took_ms,wire_up_each,wire_down_each",
    .costly = "score,score_of",
    TERN_VIEW_COLUMNS(round_columns),
    .row_size = sizeof(struct round_row),
    .state_size = sizeof(struct rounds_state),
    .open = open_rounds,
    .next = next_round,
    .close = close_rounds,
    .newest = newest_round,
};
