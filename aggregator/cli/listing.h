// Verbs that show rows of the store: a line each for people, JSON or CSV; all of them, or what belongs
// to the client that the command line names. Used from the main thread only.
#ifndef TERN_AGGREGATOR_LISTING_H
#define TERN_AGGREGATOR_LISTING_H

#include "admin/rows.h"
#include "cli/state.h"

// The options of a verb that lists rows.
#define TERN_OPTIONS_LISTING                                                                       \
    TERN_OPTION_STATE,                                                                             \
    {                                                                                              \
        "csv", NULL, "rows as CSV, with all that --json has"                                       \
    }

struct tern_listing {
    struct tern_cli *cli;
    struct tern_db *db;
    cJSON *json; // what is to be printed: all rows, or the one; NULL: lines for people
    bool csv;    // its rows are printed as CSV
    struct tern_text_table table; // the lines of all rows
    uint64_t now_ms;
    const void *ctx; // the verb's
};

struct tern_listing_verb {
    const struct tern_text_column *columns;
    size_t column_count;
    // Shows all rows.
    enum tern_result (*all)(struct tern_listing *listing);
    // Shows what there is of one client; NULL: the verb takes no client. NOT_FOUND: there is nothing
    enum tern_result (*one)(struct tern_listing *listing, const struct tern_db_client *client);
    const char *nothing; // "client 7 ...", when there is nothing
    // Writes what stands below the table; NULL: nothing.
    enum tern_result (*below)(struct tern_listing *listing);
};

#define TERN_LISTING_COLUMNS(all) .columns = (all), .column_count = sizeof(all) / sizeof((all)[0])

// Opens the store, shows the rows and returns the exit code.
int tern_list(struct tern_cli *cli, const struct tern_listing_verb *verb, const void *ctx);

// Adds an object to the rows, or makes it the one. NULL is TERN_ERR_NO_MEMORY.
TERN_MUST_USE enum tern_result tern_listing_add(struct tern_listing *listing, cJSON *object);

#endif
