// Verbs that print a list (views/view.h): as a table for people, as CSV or as JSON, with the options --columns, --where,
// --sort and --last. Used from the main thread only.
#ifndef TERN_AGGREGATOR_LISTING_H
#define TERN_AGGREGATOR_LISTING_H

#include "cli/state.h"
#include "views/view.h"

// The options of a verb that prints a list.
#define TERN_OPTIONS_LISTING                                                                       \
    TERN_OPTION_STATE, {"columns", "A,B", "only these columns, in this order; help lists them"},   \
        {"where", "COLUMN=VALUE", "only rows that have it; tag=KEY=VALUE: that tag"},              \
        {"sort", "COLUMN", "in the order of a column; -COLUMN: descending"},                       \
        {"last", "N", "only the last N rows of these"},                                            \
    {                                                                                              \
        "csv", NULL, "comma-separated values with a header line"                                   \
    }

// Adds a verb's own lines to a list. Each function is called once, while the rows are open.
struct tern_listing_sums {
    // Prints lines for people below the table.
    enum tern_result (*print)(struct tern_view_rows *rows);
    // Adds members next to "rows" in JSON; NULL: --json prints only the rows.
    enum tern_result (*add)(cJSON *object, struct tern_view_rows *rows);
};

// Prints a list or, if the verb's first argument is a client, that client's row. sums: NULL = none. Returns the exit code.
int tern_list(struct tern_cli *cli, const struct tern_view *view,
              const struct tern_listing_sums *sums);
// Reads the options of a list. Returns the exit code.
int tern_list_query(struct tern_cli *cli, struct tern_view_query *query);

#endif
