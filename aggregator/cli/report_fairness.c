#include "cli/report_fairness.h"

#include "cli/state.h"
#include "rounds/fairness.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A client that trains and has been seen; others were never asked.
struct share {
    uint64_t client;
    uint32_t invited;
    uint32_t reported;
};

struct shares {
    struct tern_db *db;
    struct share *rows; // ascending by client
    uint32_t count;
    uint32_t rounds;
};

// --- Counting

static enum tern_result add_client(struct shares *shares, const struct tern_db_client *client)
{
    if (client->evaluator || client->last_seen_ms == 0) {
        return TERN_OK;
    }
    // The rows grow by doubling.
    if ((shares->count & (shares->count - 1)) == 0) {
        size_t room = shares->count == 0 ? 1 : (size_t)shares->count * 2;
        void *rows = realloc(shares->rows, room * sizeof shares->rows[0]);
        if (rows == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        shares->rows = rows;
    }
    shares->rows[shares->count++] = (struct share){.client = client->id};
    return TERN_OK;
}

static int compare(const void *key, const void *element)
{
    uint64_t wanted = *(const uint64_t *)key;
    uint64_t here = ((const struct share *)element)->client;
    return (wanted > here) - (wanted < here);
}

static void add_total(struct shares *shares, const struct tern_db_client_total *total)
{
    struct share *share = shares->count == 0 ? NULL
                                             : bsearch(&total->client, shares->rows, shares->count,
                                                       sizeof shares->rows[0], compare);
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
    return TERN_OK;
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
        cJSON_AddItemToArray(rows, row);
    }
    tern_json_u64(object, "rounds", shares->rounds);
    tern_json_u64(object, "clients", shares->count);
    add_fairness(object, "invited", invited);
    add_fairness(object, "reported", reported);
    return tern_json_print(cli, object);
}

static void print_fairness(const char *name, const struct tern_fairness *fairness)
{
    printf("%-9s %8" PRIu32 " %8.1f %8" PRIu32 " %8.3f\n", name, fairness->least, fairness->median,
           fairness->most, fairness->jain);
}

static int print_rows(const struct tern_cli *cli, const struct shares *shares,
                      const struct tern_fairness *invited, const struct tern_fairness *reported)
{
    bool csv = tern_cli_flag(cli, "csv");
    printf(csv ? "%s,%s,%s\n" : "%6s %9s %9s\n", csv ? "client" : "CLIENT",
           csv ? "invited" : "INVITED", csv ? "reported" : "REPORTED");
    for (uint32_t i = 0; i < shares->count; i++) {
        const struct share *share = &shares->rows[i];
        printf(csv ? "%" PRIu64 ",%" PRIu32 ",%" PRIu32 "\n"
                   : "%6" PRIu64 " %9" PRIu32 " %9" PRIu32 "\n",
               share->client, share->invited, share->reported);
    }
    if (!csv) {
        printf("\nRounds of each of %" PRIu32 " clients, of %" PRIu32 "\n", shares->count,
               shares->rounds);
        printf("%-9s %8s %8s %8s %8s\n", "", "MIN", "MEDIAN", "MAX", "JAIN");
        print_fairness("invited", invited);
        print_fairness("reported", reported);
        printf("  Jain's index: 1 = all alike, 1/clients = one client has all\n");
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
        return tern_state_fail(cli, shares.db, result);
    }
    tern_db_close(shares.db);
    int code = cli->json ? print_json(cli, &shares, &invited, &reported)
                         : print_rows(cli, &shares, &invited, &reported);
    free(shares.rows);
    return code;
}
