// Reports: bytes by purpose, client or round, and how evenly rounds use clients.
#include "views/held_out.h"
#include "views/view.h"

#include "hosted/growing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- Bytes

struct bytes_row {
    struct tern_db_meter meter;
};

static const char *word_of_purpose(uint32_t purpose)
{
    return tern_purpose_name((enum tern_purpose)purpose);
}

#define STORED(...) TERN_VIEW_STORED(bytes_row, meter, __VA_ARGS__)

static bool next_bytes(struct tern_view_rows *rows, void *at)
{
    struct bytes_row *row = at;
    return tern_db_next(rows->lists[0], &row->meter);
}

#define BYTES_VIEW(by, group)                                                                      \
    static enum tern_result open_##by(struct tern_view_rows *rows)                                 \
    {                                                                                              \
        tern_view_read(rows, tern_db_meter_sums(rows->db, group));                                 \
        return TERN_OK;                                                                            \
    }                                                                                              \
    const struct tern_view tern_view_##by##_bytes = {                                              \
        .name = #by "_bytes",                                                                      \
        .usual = #by ",payload_up,payload_down,http_up,http_down,wire_up,wire_down",               \
        TERN_VIEW_COLUMNS(by##_columns),                                                           \
        .row_size = sizeof(struct bytes_row),                                                      \
        .open = open_##by,                                                                         \
        .next = next_bytes,                                                                        \
    }

static const struct tern_view_column purpose_columns[] = {STORED(
    ENUM, purpose, purpose, , ,
    SHOWN("purpose", PLAIN, "purpose of the bytes: handshake, enroll, checkin, download or upload"))
#define COLUMN STORED
#include "store/tables/bytes.def"
};
BYTES_VIEW(purpose, TERN_METER_BY_PURPOSE);

static const struct tern_view_column client_columns[] = {
    STORED(U64, client, , , ,
           SHOWN("client", PLAIN, "id of the client; 0 = peers that never authenticated"))
#define COLUMN STORED
#include "store/tables/bytes.def"
};
BYTES_VIEW(client, TERN_METER_BY_CLIENT);

static const struct tern_view_column round_columns[] = {
    STORED(U32, round, , , , SHOWN("round", PLAIN, "number of the round; 0 = outside of rounds"))
#define COLUMN STORED
#include "store/tables/bytes.def"
};
BYTES_VIEW(round, TERN_METER_BY_ROUND);

// --- Fairness

// Most distinct names of figures over all clients. One client reports at most loss, accuracy and TERN_METRICS_MAX
// metrics (client/ports.h).
#define FIGURES_MAX 12

// A client that trains and has sent a request; other clients cannot be selected.
struct share {
    struct tern_db_client_total total;
    // The client's last figures on its held-out data; NAN: never reported.
    float figures[FIGURES_MAX];
};

struct fairness_state {
    struct share *shares; // sorted by client
    uint32_t count;
    uint32_t next;
    char names[FIGURES_MAX][TERN_DB_METRIC_MAX];
    uint32_t name_count;
    struct tern_held_outs held_outs;
    struct tern_fairness_summary summary;
};

#undef STORED
#define STORED(...) TERN_VIEW_STORED(share, total, __VA_ARGS__)
static const struct tern_view_column fairness_columns[] = {
    STORED(U64, client, , , , SHOWN("client", PLAIN, "id of the client"))
        STORED(U32, invited, , , , SHOWN("invited", PLAIN, "rounds that selected the client"))
            STORED(U32, reported, , , ,
                   SHOWN("reported", PLAIN,
                         "rounds that selected the client and accepted its update"))};

static enum tern_result add_client(struct fairness_state *state,
                                   const struct tern_db_client *client)
{
    if (client->evaluator || client->last_seen_ms == 0) {
        return TERN_OK;
    }
    struct share *shares = tern_grown(state->shares, state->count, sizeof shares[0]);
    if (shares == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    state->shares = shares;
    struct share *share = &state->shares[state->count++];
    *share = (struct share){.total.client = client->id};
    for (uint32_t i = 0; i < FIGURES_MAX; i++) {
        share->figures[i] = NAN;
    }
    return TERN_OK;
}

static int compare(const void *key, const void *element)
{
    const uint64_t wanted = *(const uint64_t *)key;
    const uint64_t here = ((const struct share *)element)->total.client;
    return (wanted > here) - (wanted < here);
}

static struct share *find(const struct fairness_state *state, uint64_t client)
{
    return state->count == 0
               ? NULL
               : bsearch(&client, state->shares, state->count, sizeof state->shares[0], compare);
}

// Returns the index of a figure; FIGURES_MAX: there are too many.
static uint32_t column_of(struct fairness_state *state, const char *name)
{
    for (uint32_t i = 0; i < state->name_count; i++) {
        if (strcmp(state->names[i], name) == 0) {
            return i;
        }
    }
    if (state->name_count < FIGURES_MAX) {
        memcpy(state->names[state->name_count++], name, TERN_DB_METRIC_MAX);
        return state->name_count - 1;
    }
    return FIGURES_MAX;
}

// Versions are read in ascending order, so that the figure of the last version remains.
static void add_figure(struct fairness_state *state, const struct tern_db_metric *metric)
{
    struct share *share = find(state, metric->client);
    const uint32_t column = column_of(state, metric->name);
    if (share != NULL && column < FIGURES_MAX) {
        share->figures[column] = metric->value;
    }
}

// Loads the figures of all clients. usual: only loss and accuracy, which are loaded first, because clients choose the
// other names and at most FIGURES_MAX names are loaded.
static enum tern_result load_named(struct tern_view_rows *rows, bool usual)
{
    struct tern_db_metric metric;
    struct tern_db_rows *metrics = tern_db_metrics_from(rows->db, 0);
    while (tern_db_next(metrics, &metric)) {
        const bool is_usual =
            strcmp(metric.name, "loss") == 0 || strcmp(metric.name, "accuracy") == 0;
        if (is_usual == usual && !tern_metric_is_worst_class(metric.name)) {
            add_figure(rows->state, &metric);
        }
    }
    return tern_db_end(metrics);
}

static void get_figure(const void *at, const struct tern_view_column *column,
                       struct tern_view_value *value)
{
    const float figure = ((const struct share *)at)->figures[column->argument];
    if (!isnan(figure)) {
        TERN_VIEW_PUT_REAL(value, figure);
    }
}

static enum tern_result load_figures(struct tern_view_rows *rows)
{
    struct fairness_state *state = rows->state;
    TERN_TRY(load_named(rows, true));
    TERN_TRY(load_named(rows, false));
    for (uint32_t i = 0; i < state->name_count; i++) {
        const struct tern_view_column column = {.name = state->names[i],
                                                .kind = TERN_VIEW_REAL,
                                                .format = TERN_VIEW_SCORE,
                                                .help = "last figure on the client's held-out data",
                                                .get = get_figure,
                                                .argument = i};
        TERN_TRY(tern_view_add_column(rows, &column));
    }
    return tern_held_outs_load(rows->db, 0, UINT32_MAX, &state->held_outs);
}

static enum tern_result load_clients(struct tern_view_rows *rows)
{
    struct tern_db_client client;
    struct tern_db_client_total total;
    struct tern_db_rows *clients = tern_db_clients(rows->db);
    while (tern_db_next(clients, &client)) {
        tern_db_check_row(clients, add_client(rows->state, &client));
    }
    TERN_TRY(tern_db_end(clients));
    struct tern_db_rows *totals = tern_db_client_totals_from(rows->db, 0);
    while (tern_db_next(totals, &total)) {
        struct share *share = find(rows->state, total.client);
        if (share != NULL) {
            share->total = total;
        }
    }
    return tern_db_end(totals);
}

// Computes how even invitations are, or reports. TERN_ERR_NO_MEMORY
static enum tern_result summarise(const struct fairness_state *state, bool reported,
                                  struct tern_fairness *fairness)
{
    uint32_t *rounds = calloc(state->count + 1, sizeof rounds[0]);
    if (rounds == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < state->count; i++) {
        rounds[i] = reported ? state->shares[i].total.reported : state->shares[i].total.invited;
    }
    *fairness = tern_fairness_of(rounds, state->count);
    free(rounds);
    return TERN_OK;
}

static enum tern_result open_fairness(struct tern_view_rows *rows)
{
    struct fairness_state *state = rows->state;
    struct tern_db_counts counts;
    TERN_TRY(load_clients(rows));
    TERN_TRY(load_figures(rows));
    TERN_TRY(tern_db_counts(rows->db, 0, &counts));
    state->summary.rounds = (uint32_t)(counts.rounds_open + counts.rounds_committed);
    state->summary.clients = state->count;
    state->summary.held_outs = &state->held_outs;
    TERN_TRY(summarise(state, false, &state->summary.invited));
    return summarise(state, true, &state->summary.reported);
}

static bool next_share(struct tern_view_rows *rows, void *at)
{
    struct fairness_state *state = rows->state;
    if (state->next == state->count) {
        return false;
    }
    *(struct share *)at = state->shares[state->next++];
    return true;
}

static void close_fairness(struct tern_view_rows *rows)
{
    struct fairness_state *state = rows->state;
    free(state->shares);
    tern_held_outs_free(&state->held_outs);
}

const struct tern_view tern_view_fairness = {
    .name = "fairness",
    .usual = "client,invited,reported,loss*,accuracy*",
    TERN_VIEW_COLUMNS(fairness_columns),
    .row_size = sizeof(struct share),
    .state_size = sizeof(struct fairness_state),
    .open = open_fairness,
    .next = next_share,
    .close = close_fairness,
};

const struct tern_fairness_summary *tern_view_fairness_summary(const struct tern_view_rows *rows)
{
    return &((const struct fairness_state *)rows->state)->summary;
}
