// What a CSV table holds, column by column: statistics of its numbers, its labels, and where what
// cannot be learnt from stands. Unlike a reader of examples it goes on over whatever is wrong, so that
// all of it can be said at once. For `tern-client check` and `tern-aggregator init --data`. Hosted;
// reentrant.
#ifndef TERN_CSV_PROFILE_H
#define TERN_CSV_PROFILE_H

#include "hosted/csv_columns.h"
#include "hosted/name_set.h"

#define TERN_CSV_FEATURES_MAX 1048576u
#define TERN_CSV_LABELS_MAX 4096u

// Magnitudes from here on are no measurement but a mark, of a value that is missing or a fault.
#define TERN_CSV_HUGE 1e15

// Fields of one kind.
struct tern_csv_found {
    uint64_t count;
    uint64_t line; // of the first, from 1
    char text[32]; // of the first, cut
};

struct tern_csv_column {
    const char *name; // from the header line; else its number, from 0
    bool feature;     // statistics are of these and of the label's column
    uint64_t numbers; // finite ones below TERN_CSV_HUGE, of which are:
    double mean;
    double deviation; // of all of them, not of a sample
    double low;
    double high;
    bool rises;                    // each is above the one before: a row number, a time
    struct tern_csv_found missing; // empty fields
    struct tern_csv_found bad;     // texts, and numbers that are not finite in float32
    struct tern_csv_found huge;    // numbers from TERN_CSV_HUGE on
};

struct tern_csv_label {
    uint64_t count;
    uint64_t line; // of the first
};

struct tern_csv_profile {
    struct tern_csv_columns columns;
    struct tern_csv_column *column; // [columns.count]
    char *names;                    // of the columns, each with a NUL
    uint64_t rows;
    struct tern_name_set labels; // in order of arrival; none of choice->numeric
    bool many_labels; // there are more than TERN_CSV_LABELS_MAX, and `labels` has the first of them
    struct tern_csv_label *label; // [TERN_CSV_LABELS_MAX], the first labels.count used
    struct tern_csv_found ragged; // lines with another number of fields than the first
};

// Reads a whole table. *profile is to be freed, also on error.
// Errors of tern_csv_columns_learn() and tern_csv_next(); TERN_ERR_CORRUPT when there are no rows
TERN_MUST_USE enum tern_result tern_csv_profile_read(struct tern_input *input,
                                                     const struct tern_csv_choice *choice,
                                                     struct tern_csv_profile *profile);
void tern_csv_profile_free(struct tern_csv_profile *profile);

// Writes the labels as the list of classes that a data spec has, "blocked|good|worn", sorted. false
// when they do not fit into size bytes, or one holds what such a list cannot.
bool tern_csv_profile_classes(const struct tern_csv_profile *profile, char *text, size_t size);

#endif
