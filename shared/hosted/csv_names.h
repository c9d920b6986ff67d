// The names of the columns of a table that a model is trained on, by which another table's columns are
// found: what `tern-client predict` asks about may have them in another order, and others beside. Hosted; one thread.
#ifndef TERN_CSV_NAMES_H
#define TERN_CSV_NAMES_H

#include "hosted/csv.h"
#include "hosted/name_set.h"

struct tern_csv_names {
    struct tern_name_set
        features; // in the order in which the model takes them; none: columns go by their places
    char *label;  // malloc'ed; NULL: there is none
    char *twins; // the features' names in order, each with a NUL, where two are the same; malloc'ed
    uint32_t twin_count; // of these names
};

struct tern_csv_profile;

// Takes the names of a profiled table: none where it has no header line, or two features of one name. *names is to
// be freed, also on error. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_names_take(const struct tern_csv_profile *profile,
                                                   struct tern_csv_names *names);
void tern_csv_names_free(struct tern_csv_names *names);

// Whether the current record, a table's first, is a header line with such names: it has all of them, one that is no
// number, or no number at all.
bool tern_csv_names_head(struct tern_csv_names *names, const struct tern_csv *csv);

// Writes which feature each field of the header line is, TERN_CSV_NO_COLUMN: none, to place[csv->field_count].
// TERN_ERR_NOT_FOUND  a feature has no column; TERN_ERR_CONFIG  it has two; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_names_place(struct tern_csv_names *names,
                                                    const struct tern_csv *csv, uint32_t *place);

// Compares the header line of a table with such names, whose features go by their places, with that of the trained one.
// skipped: [csv->field_count], no features.
// TERN_ERR_CONFIG  it names them in another order
TERN_MUST_USE enum tern_result tern_csv_names_check_order(const struct tern_csv_names *names,
                                                          const struct tern_csv *csv,
                                                          const bool *skipped);

#endif
