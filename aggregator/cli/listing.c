#include "cli/listing.h"

#include <inttypes.h>
#include <string.h>

struct listing {
    struct tern_cli *cli;
    const struct tern_view *view;
    const struct tern_listing_sums *sums;
    struct tern_view_query query;
    bool csv;
    bool one; // the list is the row of one client
};

int tern_list_query(struct tern_cli *cli, struct tern_view_query *query)
{
    uint64_t last = 0;
    if (tern_cli_flag(cli, "last") &&
        tern_cli_number(cli, "last", 1, 1, UINT32_MAX, &last) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    *query = (struct tern_view_query){.columns = tern_cli_option(cli, "columns", NULL),
                                      .where = tern_cli_option(cli, "where", NULL),
                                      .sort = tern_cli_option(cli, "sort", NULL),
                                      .last = last,
                                      .now_ms = tern_now_ms()};
    return TERN_EXIT_OK;
}

// Writes an object with the member "rows" and the members that sums->add() adds.
static enum tern_result write_object(struct tern_view_rows *rows,
                                     const struct tern_listing_sums *sums)
{
    fputs("{\"rows\":", stdout);
    TERN_TRY(tern_view_write_json(rows, stdout));
    cJSON *object = cJSON_CreateObject();
    const enum tern_result result = sums->add(object, rows);
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    if (text != NULL) {
        printf(",%s", text + 1); // without the opening brace
    }
    cJSON_free(text);
    return text != NULL ? result : TERN_ERR_NO_MEMORY;
}

static enum tern_result write_one(const struct listing *listing, struct tern_view_rows *rows)
{
    if (!listing->cli->json) {
        return tern_view_write_row(rows, stdout);
    }
    cJSON *object = tern_view_object(rows);
    return object != NULL && tern_json_print(listing->cli, object) == TERN_EXIT_OK
               ? TERN_OK
               : TERN_ERR_NO_MEMORY;
}

static enum tern_result write_rows(const struct listing *listing, struct tern_view_rows *rows)
{
    const struct tern_listing_sums *sums = listing->sums;
    if (listing->csv) {
        return tern_view_write_csv(rows, stdout);
    }
    if (listing->cli->json) {
        TERN_TRY(sums != NULL && sums->add != NULL ? write_object(rows, sums)
                                                   : tern_view_write_json(rows, stdout));
        putchar('\n');
        return TERN_OK;
    }
    TERN_TRY(tern_view_write_table(rows, stdout));
    return sums != NULL && sums->print != NULL ? sums->print(rows) : TERN_OK;
}

// Closes the rows and the database, and returns an exit code.
static int close_list(const struct listing *listing, struct tern_db *db,
                      struct tern_view_rows *rows, enum tern_result result)
{
    const enum tern_result closed = tern_view_close(rows);
    result = closed != TERN_OK ? closed : result;
    if (result != TERN_OK) {
        return tern_state_fail(listing->cli, db, result);
    }
    tern_db_close(db);
    return TERN_EXIT_OK;
}

static int print_one(const struct listing *listing, struct tern_db *db, struct tern_view_rows *rows)
{
    if (listing->csv) {
        return close_list(listing, db, rows, tern_view_write_csv(rows, stdout));
    }
    if (tern_view_next(rows)) {
        return close_list(listing, db, rows, write_one(listing, rows));
    }
    TERN_CLI_TRY(close_list(listing, db, rows, TERN_OK));
    tern_cli_fail(listing->cli, TERN_ERR_NOT_FOUND, "client %" PRIu64 " %s", listing->query.client,
                  listing->view->nothing != NULL ? listing->view->nothing : "has no such row");
    return TERN_EXIT_NOTHING;
}

static int list(const struct listing *listing, struct tern_db *db)
{
    struct tern_view_rows *rows;
    struct tern_db_client client;
    char why[TERN_VIEW_WHY_MAX];
    const uint64_t id = listing->query.client;
    enum tern_result result = id != 0 ? tern_db_client_get(db, id, &client) : TERN_OK;
    if (result != TERN_OK) {
        return tern_state_fail_for_client(listing->cli, db, id, result);
    }
    result = tern_view_open(listing->view, db, &listing->query, &rows, why);
    if (result == TERN_ERR_ARGUMENT) {
        tern_db_close(db);
        return tern_cli_fail(listing->cli, TERN_ERR_CONFIG, "%s", why);
    }
    if (result != TERN_OK) {
        return tern_state_fail(listing->cli, db, result);
    }
    return listing->one ? print_one(listing, db, rows)
                        : close_list(listing, db, rows, write_rows(listing, rows));
}

// A table for people has the usual columns; a single row, CSV and JSON have all columns.
static const char *default_columns(const struct listing *listing)
{
    const bool table = !listing->one && !listing->csv && !listing->cli->json;
    return table ? listing->view->usual : "*";
}

int tern_list(struct tern_cli *cli, const struct tern_view *view,
              const struct tern_listing_sums *sums)
{
    struct tern_db *db;
    struct listing listing = {.cli = cli, .view = view, .sums = sums};
    uint64_t client = 0;
    if (strcmp(tern_cli_option(cli, "columns", ""), "help") == 0) {
        tern_view_write_help(view, stdout);
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_list_query(cli, &listing.query));
    if (cli->verb->arguments[0] == '[') {
        TERN_CLI_TRY(tern_state_client_argument(cli, &client));
    }
    listing.query.client = client;
    listing.one = client != 0 && view != &tern_view_client_rounds;
    listing.csv = tern_cli_flag(cli, "csv");
    if (listing.csv && cli->json) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--csv and --json exclude each other");
    }
    if (listing.query.columns == NULL) {
        listing.query.columns = default_columns(&listing);
    }
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    return list(&listing, db);
}
