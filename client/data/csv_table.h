// Reads a CSV table as examples: every column except label, group and dropped columns is a float32 feature; the label column
// gives the class. Called by the reader tern_read_csv() and a fuzzer. Reentrant.
#ifndef TERN_CSV_TABLE_H
#define TERN_CSV_TABLE_H

#include "data/rows.h"
#include "data/source.h"
#include "hosted/csv_columns.h"
#include "hosted/input.h"
#include "hosted/name_set.h"

struct tern_table_config {
    struct tern_csv_choice choice; // which columns to use, and how to read values
    struct tern_name_set *groups;  // gives each owner's name a number, the same in all tables
};

struct tern_table {
    struct tern_rows rows; // with values, not bytes
    char *names; // names of the features, each with a NUL, malloc'ed; NULL: no header line
    size_t names_len;
    // [rows.count] 1 for a row with a label or target, 0 for one without, malloc'ed; NULL: every row has one
    uint8_t *labelled;
    // the table has no label or target column, or no value in it: every label and target is 0
    bool unlabelled;
    uint64_t missing; // values that are NAN in rows.values
    char *notes;      // warnings for the user, one sentence a line, malloc'ed; NULL: none
    char *target;     // the target's name, malloc'ed; NULL: no target, or no header line
    struct tern_name_set classes; // choice.classes, in class order; empty if labels are numbers
};

// Reads a table from input in two passes. The first pass makes the table's profile (hosted/csv_profile.h), which classifies
// each line and column; the first problem that csv_judge.h finds in the profile is the error. The second pass reads the rows.
// On error *table is empty.
// TERN_ERR_NOT_FOUND  a chosen column does not exist; a label that choice.classes does not list
// TERN_ERR_CONFIG     a label that is no class number, without choice.classes; a first line that may be a header or a row
// TERN_ERR_CORRUPT    a line with more or fewer fields than the first, a feature or target that is no finite number, a
//                     missing label, target or group, no rows, or malformed CSV
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_csv_table_read(struct tern_input *input,
                                                   const struct tern_table_config *config,
                                                   const struct tern_data_limits *limits,
                                                   struct tern_table *table);

void tern_table_free(struct tern_table *table);

#endif
