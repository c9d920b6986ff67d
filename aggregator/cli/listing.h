// Prints a list (views/view.h) for a verb: as a table for people, as CSV or as JSON, with the options --columns, --where,
// --sort and --last. From the main thread.
#ifndef TERN_AGGREGATOR_LISTING_H
#define TERN_AGGREGATOR_LISTING_H

#include "cli/state.h"
#include "views/view.h"

// The options of a verb that prints a list.
#define TERN_OPTIONS_LISTING                                                                       \
    TERN_OPTION_STATE,                                                                             \
        {"columns", "A,B", "only these columns, in this order; `--columns help` lists all"},       \
        {"where", "COLUMN=VALUE",                                                                  \
         "only rows with this value in the column; tag=KEY=VALUE: clients with this tag"},         \
        {"sort", "COLUMN", "sort the rows by a column; -COLUMN: in descending order"},             \
        {"last", "N", "only the last N rows"},                                                     \
    {                                                                                              \
        "csv", NULL, "comma-separated values with a header line"                                   \
    }

// Functions of a verb that add totals to a list. Each one is called once, while the rows are open.
struct tern_listing_sums {
    // Prints lines for people below the table.
    enum tern_result (*print)(struct tern_view_rows *rows);
    // Adds JSON members beside "rows"; NULL: --json prints only the rows.
    enum tern_result (*add)(cJSON *object, struct tern_view_rows *rows);
};

// Prints the list, or only the row of the client that the verb's first argument names. sums: NULL: the list has no totals.
// Returns an exit code.
int tern_list(struct tern_cli *cli, const struct tern_view *view,
              const struct tern_listing_sums *sums);
// Reads the options of a list. Returns an exit code.
int tern_list_query(struct tern_cli *cli, struct tern_view_query *query);

#endif
