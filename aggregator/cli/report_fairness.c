#include "cli/report_fairness.h"

#include "admin/held_out.h"
#include "cli/state.h"
#include "hosted/growing.h"
#include "rounds/spread.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of different names that clients tell; what one client tells are at most loss, accuracy and
// TERN_METRICS_MAX of client/ports.h.
#define FIGURES_MAX 12

// A client that trains and has been seen; others were never asked.
struct share {
    uint64_t client;
    uint32_t invited;
    uint32_t reported;
    float figures[FIGURES_MAX]; // of held-out data, as last told; NAN: never
};

struct shares {
    struct tern_db *db;
    struct share *rows; // ascending by client
    uint32_t count;
    uint32_t rounds;
    char names[FIGURES_MAX][TERN_DB_METRIC_MAX]; // of figures
    uint32_t name_count;
    struct tern_held_outs held_outs;
};

// --- Counting

static enum tern_result add_client(struct shares *shares, const struct tern_db_client *client)
{
    if (client->evaluator || client->last_seen_ms == 0) {
        return TERN_OK;
    }
    struct share *rows = tern_grown(shares->rows, shares->count, sizeof rows[0]);
    if (rows == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    shares->rows = rows;
    struct share *share = &shares->rows[shares->count++];
    *share = (struct share){.client = client->id};
    for (uint32_t i = 0; i < FIGURES_MAX; i++) {
        share->figures[i] = NAN;
    }
    return TERN_OK;
}

static int compare(const void *key, const void *element)
{
    uint64_t wanted = *(const uint64_t *)key;
    uint64_t here = ((const struct share *)element)->client;
    return (wanted > here) - (wanted < here);
}

static struct share *find(const struct shares *shares, uint64_t client)
{
    return shares->count == 0
               ? NULL
               : bsearch(&client, shares->rows, shares->count, sizeof shares->rows[0], compare);
}

// Which column it is in; FIGURES_MAX: there are too many names.
static uint32_t column_of(struct shares *shares, const char *name)
{
    for (uint32_t i = 0; i < shares->name_count; i++) {
        if (strcmp(shares->names[i], name) == 0) {
            return i;
        }
    }
    if (shares->name_count < FIGURES_MAX) {
        memcpy(shares->names[shares->name_count++], name, TERN_DB_METRIC_MAX);
        return shares->name_count - 1;
    }
    return FIGURES_MAX;
}

// Versions come in their order: the last one stays.
static void add_figure(struct shares *shares, const struct tern_db_metric *metric)
{
    struct share *share = find(shares, metric->client);
    const uint32_t column = column_of(shares, metric->name);
    if (share != NULL && column < FIGURES_MAX) {
        share->figures[column] = metric->value;
    }
}

// Those that every client tells go first: room is for FIGURES_MAX, and names are as clients like.
static enum tern_result load_named(struct shares *shares, bool usual)
{
    struct tern_db_metric metric;
    struct tern_db_rows *rows = tern_db_metrics_from(shares->db, 0);
    while (tern_db_next(rows, &metric)) {
        const bool is_usual =
            strcmp(metric.name, "loss") == 0 || strcmp(metric.name, "accuracy") == 0;
        if (is_usual == usual && !tern_metric_is_of_worst_class(metric.name)) {
            add_figure(shares, &metric);
        }
    }
    return tern_db_end(rows);
}

static enum tern_result load_figures(struct shares *shares)
{
    TERN_TRY(load_named(shares, true));
    TERN_TRY(load_named(shares, false));
    return tern_held_outs_load(shares->db, 0, UINT32_MAX, &shares->held_outs);
}

static void add_total(struct shares *shares, const struct tern_db_client_total *total)
{
    struct share *share = find(shares, total->client);
    if (share != NULL) {
        share->invited = total->invited;
        share->reported = total->reported;
    }
}

static enum tern_result load(struct shares *shares)
{
    struct tern_db_client client;
    struct tern_db_client_total total;
    struct tern_db_counts counts;
    struct tern_db_rows *rows = tern_db_clients(shares->db);
    while (tern_db_next(rows, &client)) {
        tern_db_check_row(rows, add_client(shares, &client));
    }
    TERN_TRY(tern_db_end(rows));
    rows = tern_db_client_totals(shares->db);
    while (tern_db_next(rows, &total)) {
        add_total(shares, &total);
    }
    TERN_TRY(tern_db_end(rows));
    TERN_TRY(tern_db_counts(shares->db, 0, &counts));
    shares->rounds = (uint32_t)(counts.rounds_open + counts.rounds_committed);
    return load_figures(shares);
}

// Of the invitations or of the reports. TERN_ERR_NO_MEMORY
static enum tern_result summarise(const struct shares *shares, bool reported,
                                  struct tern_fairness *fairness)
{
    uint32_t *rounds = calloc(shares->count + 1, sizeof rounds[0]);
    if (rounds == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < shares->count; i++) {
        rounds[i] = reported ? shares->rows[i].reported : shares->rows[i].invited;
    }
    *fairness = tern_fairness_of(rounds, shares->count);
    free(rounds);
    return TERN_OK;
}

// --- Printing

static void add_fairness(cJSON *object, const char *name, const struct tern_fairness *fairness)
{
    cJSON *row = cJSON_AddObjectToObject(object, name);
    tern_json_u64(row, "min", fairness->least);
    tern_json_float(row, "median", (float)fairness->median);
    tern_json_u64(row, "max", fairness->most);
    tern_json_float(row, "jain", (float)fairness->jain);
}

static uint32_t newest_version(const struct shares *shares)
{
    return shares->held_outs.list[shares->held_outs.count - 1].version;
}

static void add_figures(cJSON *row, const struct shares *shares, const struct share *share)
{
    for (uint32_t i = 0; i < shares->name_count; i++) {
        if (!isnan(share->figures[i])) {
            tern_json_float(row, shares->names[i], share->figures[i]);
        } else {
            cJSON_AddNullToObject(row, shares->names[i]);
        }
    }
}

static int print_json(const struct tern_cli *cli, const struct shares *shares,
                      const struct tern_fairness *invited, const struct tern_fairness *reported)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *rows = cJSON_AddArrayToObject(object, "rows");
    for (uint32_t i = 0; i < shares->count; i++) {
        cJSON *row = cJSON_CreateObject();
        tern_json_u64(row, "client", shares->rows[i].client);
        tern_json_u64(row, "invited", shares->rows[i].invited);
        tern_json_u64(row, "reported", shares->rows[i].reported);
        add_figures(row, shares, &shares->rows[i]);
        cJSON_AddItemToArray(rows, row);
    }
    tern_json_u64(object, "rounds", shares->rounds);
    tern_json_u64(object, "clients", shares->count);
    add_fairness(object, "invited", invited);
    add_fairness(object, "reported", reported);
    if (shares->held_outs.count > 0) {
        const uint32_t newest = newest_version(shares);
        tern_json_u64(object, "held_out_version", newest);
        tern_held_outs_json(object, &shares->held_outs, newest);
    }
    return tern_json_print(cli, object);
}

static void print_fairness(const char *name, const struct tern_fairness *fairness)
{
    printf("%-9s %8" PRIu32 " %8.1f %8" PRIu32 " %8.3f\n", name, fairness->least, fairness->median,
           fairness->most, fairness->jain);
}

// A line has room for so many figures of a client; --csv and --json have all.
#define FIGURES_SHOWN 3

static uint32_t shown(const struct shares *shares, bool csv)
{
    return csv || shares->name_count < FIGURES_SHOWN ? shares->name_count : FIGURES_SHOWN;
}

static void print_names(const struct shares *shares, bool csv)
{
    for (uint32_t i = 0; i < shown(shares, csv); i++) {
        printf(csv ? ",%s" : " %15s", shares->names[i]);
    }
    putchar('\n');
}

static void print_figures(const struct shares *shares, const struct share *share, bool csv)
{
    for (uint32_t i = 0; i < shown(shares, csv); i++) {
        if (!isnan(share->figures[i])) {
            printf(csv ? ",%.6g" : " %15.4f", (double)share->figures[i]);
        } else {
            printf(csv ? "," : " %15s", "-");
        }
    }
    putchar('\n');
}

static void print_held_out(const struct shares *shares)
{
    const struct tern_held_outs *all = &shares->held_outs;
    const uint32_t version = all->count > 0 ? newest_version(shares) : 0;
    bool first = true;
    for (size_t i = 0; i < all->count; i++) {
        const struct tern_held_out *of = &all->list[i];
        const struct tern_spread *spread = &of->spread;
        if (of->version != version) {
            continue;
        }
        if (first) {
            printf("\nHeld-out data of %" PRIu32 " clients: the %s of version %" PRIu32
                   ", before they trained\n",
                   spread->clients, of->model == TERN_EVALUATED_GLOBAL ? "global model" : "replica",
                   version);
            printf("%-15s %9s %9s %9s %9s %12s\n", "", "WEIGHTED", "MEAN", "DEVIATION", "WORST",
                   "OF CLIENT");
            first = false;
        }
        printf("%-15s %9.4f %9.4f %9.4f %9.4f %12" PRIu64 "\n", of->name, spread->weighted,
               spread->mean, tern_spread_deviation(spread), spread->worst, spread->worst_client);
    }
}

static int print_rows(const struct tern_cli *cli, const struct shares *shares,
                      const struct tern_fairness *invited, const struct tern_fairness *reported)
{
    bool csv = tern_cli_flag(cli, "csv");
    printf(csv ? "%s,%s,%s" : "%6s %9s %9s", csv ? "client" : "CLIENT", csv ? "invited" : "INVITED",
           csv ? "reported" : "REPORTED");
    print_names(shares, csv);
    for (uint32_t i = 0; i < shares->count; i++) {
        const struct share *share = &shares->rows[i];
        printf(csv ? "%" PRIu64 ",%" PRIu32 ",%" PRIu32 : "%6" PRIu64 " %9" PRIu32 " %9" PRIu32,
               share->client, share->invited, share->reported);
        print_figures(shares, share, csv);
    }
    if (!csv) {
        printf("\nRounds of each of %" PRIu32 " clients, of %" PRIu32 "\n", shares->count,
               shares->rounds);
        printf("%-9s %8s %8s %8s %8s\n", "", "MIN", "MEDIAN", "MAX", "JAIN");
        print_fairness("invited", invited);
        print_fairness("reported", reported);
        printf("  Jain's index: 1 = all alike, 1/clients = one client has all\n");
        print_held_out(shares);
    }
    return TERN_EXIT_OK;
}

int tern_report_fairness(struct tern_cli *cli)
{
    struct shares shares = {.db = NULL};
    struct tern_fairness invited;
    struct tern_fairness reported;
    TERN_CLI_TRY(tern_state_open_reading(cli, &shares.db));
    enum tern_result result = load(&shares);
    if (result == TERN_OK) {
        result = summarise(&shares, false, &invited);
    }
    if (result == TERN_OK) {
        result = summarise(&shares, true, &reported);
    }
    if (result != TERN_OK) {
        free(shares.rows);
        tern_held_outs_free(&shares.held_outs);
        return tern_state_fail(cli, shares.db, result);
    }
    tern_db_close(shares.db);
    int code = cli->json ? print_json(cli, &shares, &invited, &reported)
                         : print_rows(cli, &shares, &invited, &reported);
    free(shares.rows);
    tern_held_outs_free(&shares.held_outs);
    return code;
}
