// Finds clients whose tables have other column names, or another column order, than most clients' tables,
// for `status`, `doctor` and `clients`. The model identifies a column by its place, so such a client trains
// on the wrong columns. From the main thread.
#ifndef TERN_CLI_OTHER_COLUMNS_H
#define TERN_CLI_OTHER_COLUMNS_H

#include "admin/rows.h"
#include "cli/state.h"

#define TERN_OTHER_COLUMNS_NAMED 5
#define TERN_OTHER_COLUMNS_ADVICE                                                                  \
    "bring the columns of all tables into one order, under the same names; such a client logs "    \
    "other-columns, too"

struct tern_other_columns {
    struct tern_db_column_names names;
    struct {
        uint64_t id;
        char name[TERN_DB_NAME_MAX];
    } clients[TERN_OTHER_COLUMNS_NAMED]; // the first clients with other columns
    uint32_t named;
};

// TERN_ERR_IO and others: tern_db_error() has the reason
TERN_MUST_USE enum tern_result tern_other_columns_load(struct tern_db *db,
                                                       struct tern_other_columns *columns);

// Writes one sentence without a full stop; false where no client has other columns.
#define TERN_OTHER_COLUMNS_TEXT (TERN_OTHER_COLUMNS_NAMED * (TERN_TEXT + 24) + 256)
bool tern_other_columns_describe(const struct tern_other_columns *columns,
                                 char text[TERN_OTHER_COLUMNS_TEXT]);

// Adds other_column_names: the first clients with other columns, by id.
void tern_other_columns_json(cJSON *object, const struct tern_other_columns *columns);

#endif
