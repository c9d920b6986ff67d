// Which column of a CSV table is what: the label's, the group's, those that are left out, and the
// features, learnt from its first line. Hosted; reentrant.
#ifndef TERN_CSV_COLUMNS_H
#define TERN_CSV_COLUMNS_H

#include "hosted/csv.h"

#define TERN_CSV_NO_COLUMN UINT32_MAX
#define TERN_CSV_NAME_MAX 256 // bytes of a name in a list, with the NUL

// Columns are given by their name in the header line or by a number from 0 (from -1 back).
struct tern_csv_choice {
    const char *label;  // NULL: the last column
    bool unlabelled;    // there is none
    bool numeric;       // it is a target, a number to be told
    const char *drop;   // those to leave out, between '|'; NULL: none
    const char *group;  // that says whose row it is, no feature; NULL: none
    bool features_only; // the others may be missing where they are given by name, as of new data
};

struct tern_csv_columns {
    bool *skipped;     // [count] no feature; malloc'ed
    uint32_t count;    // of every line
    uint32_t features; // columns that are not skipped
    uint32_t label;    // TERN_CSV_NO_COLUMN: none
    uint32_t group;    // TERN_CSV_NO_COLUMN: none
    bool header;       // the first line names them
};

// Learns them from the current record, the table's first. It is a header when a column is given by
// a name, or when none of its features is a number. *columns is to be freed, also on error.
// TERN_ERR_NOT_FOUND  no such column
// TERN_ERR_CONFIG     the label's column is given a second meaning
// TERN_ERR_CORRUPT    no features, or another separator than the comma; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_columns_learn(const struct tern_csv *csv,
                                                      const struct tern_csv_choice *choice,
                                                      struct tern_csv_columns *columns);
void tern_csv_columns_free(struct tern_csv_columns *columns);

// Takes the text up to the next '|' of a list, cut to the buffer; false at its end, *rest == NULL.
bool tern_csv_next_name(const char **rest, char name[TERN_CSV_NAME_MAX]);

#endif
