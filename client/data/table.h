// A CSV table as examples: every column but the label's, the group's and dropped ones is a float32
// feature, the label column tells the class. Hosted; reentrant.
#ifndef TERN_TABLE_H
#define TERN_TABLE_H

#include "data/rows.h"
#include "data/source.h"
#include "hosted/input.h"
#include "hosted/name_set.h"

struct tern_table_config {
    const char *label;  // name of a column of the header line, or a number from 0 (from -1 back);
                        // NULL: the last column
    const char *target; // likewise, of the column of the numbers that are to be told, in place of a
                        // label's; NULL: there is none
    bool unlabelled;    // there is neither
    const char *drop;   // names or numbers of columns to leave out, between '|'; NULL: none
    const char *classes; // the labels that may occur, between '|', in class order;
                         // NULL: labels are class numbers from 0
    const char *group;   // column that says whose row it is, no feature; NULL: none
    bool features_only;  // the columns above may be missing where they are given by name
    struct tern_name_set
        *groups; // what group's texts are numbered in; it goes on from table to table
};

struct tern_table {
    struct tern_rows rows; // of values
    char *names;           // the features', each with a NUL, malloc'ed; NULL: no header line
    size_t names_len;
    bool unlabelled;              // the label's or target's column is missing: they are 0
    char *target;                 // its name, malloc'ed; NULL: as names
    struct tern_name_set classes; // config->classes, in class order; none where labels are numbers
};

// Reads a whole table. The first line is a header when a column is given by a name, or when none of
// its features is a number. On error *table is empty.
// TERN_ERR_NOT_FOUND  no such column; a label that config->classes does not list
// TERN_ERR_CONFIG     a label that is no class number, and no config->classes
// TERN_ERR_CORRUPT    a line with other than the first's fields, a feature or target that is missing or no
//                     finite number, a missing group, no rows at all, or malformed CSV
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_csv_table_read(struct tern_input *input,
                                                   const struct tern_table_config *config,
                                                   const struct tern_data_limits *limits,
                                                   struct tern_table *table);

void tern_table_free(struct tern_table *table);

#endif
