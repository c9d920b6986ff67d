// Profiles a CSV table: whether the first line names the columns, the statistics of each column, the labels, and the
// lines with fields that cannot be used. Every program profiles a table before it reads it, so that init, check, run,
// predict and experiments treat it the same way. Profiling continues behind bad fields, so that csv_judge.h can report
// all of them at once. Reentrant.
#ifndef TERN_HOSTED_CSV_PROFILE_H
#define TERN_HOSTED_CSV_PROFILE_H

#include "hosted/csv_columns.h"
#include "hosted/csv_order.h"
#include "hosted/name_set.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_CSV_FEATURES_MAX 1048576u
#define TERN_CSV_LABELS_MAX 4096u
#define TERN_CSV_TEXTS_MAX                                                                         \
    20u // different texts of a feature's column are counted up to this number

// Numbers of this magnitude are marks of missing values or faults, not measurements.
#define TERN_CSV_HUGE 1e15

// Fields or lines of one kind: how many, and the first of them.
struct tern_csv_found {
    uint64_t count;
    uint64_t line; // from 1
    char text[32]; // cut
};

// The lowest or highest number of a column.
struct tern_csv_edge {
    double value;
    double next;    // the number nearest to it; equal to value where there is no other
    uint64_t count; // rows with this number
    uint64_t line;  // first of these rows
    uint32_t far;   // different numbers at this end that are far beyond all others
};

struct tern_csv_distinct; // private

struct tern_csv_column {
    const char *name; // from the header line; without one, the column's number from 0
    bool feature;     // features and the label's column have statistics
    uint64_t numbers; // finite, below TERN_CSV_HUGE; the next six fields describe them
    double mean;
    double deviation; // of the whole population (divided by n)
    double low;
    double high;
    struct tern_csv_edge bottom;
    struct tern_csv_edge top;
    uint64_t distinct; // different numbers; 0: too many to count
    struct tern_csv_order order;
    enum tern_csv_suspect suspect;
    struct tern_csv_found missing;  // empty fields, NA, ? and the like
    struct tern_csv_found doubtful; // none, -, unknown: missing values in a column of numbers
    struct tern_csv_found bad;      // texts, and numbers that are not finite in float32
    struct tern_csv_found like;     // bad texts that were meant as numbers: "<0.5", "1,5"
    struct tern_csv_found huge;     // numbers from TERN_CSV_HUGE on
    // true, no and the like in a feature's column (tern_csv_has_flags())
    struct tern_csv_found flags;
    uint64_t yes;   // flags that mean 1
    uint32_t texts; // different texts of bad and flags; TERN_CSV_TEXTS_MAX + 1: too many to count
    struct tern_csv_distinct *seen; // private
};

struct tern_csv_label {
    uint64_t count;
    uint64_t line; // first line with this label
};

struct tern_csv_profile {
    struct tern_csv_columns columns;
    struct tern_csv_column *column; // [columns.count]
    char *names;                    // of the columns, each with a NUL
    uint64_t rows;                  // rows with bad fields included, ragged lines excluded
    uint64_t first_row;             // line of the first row
    uint64_t last_row;              // line of the last row
    struct tern_name_set labels;    // in order of arrival; empty where choice->numeric is set
    bool many_labels; // there are more than TERN_CSV_LABELS_MAX; `labels` has the first of them
    struct tern_csv_label *label;     // [TERN_CSV_LABELS_MAX], of which labels.count are used
    struct tern_csv_found ragged;     // lines with another number of fields than the first
    uint32_t ragged_fields;           // fields of the first ragged line
    struct tern_csv_found incomplete; // rows that lack a feature, the label or the target
    struct tern_csv_found skipped[3]; // lines that are not rows, by enum tern_csv_line - 1
    char *first; // fields of the header line, each with a NUL; NULL: no header line; private
    size_t first_len;
    bool first_named;                   // no field of the header line is a number
    struct tern_csv_distinct *distinct; // [columns.count]; private
};

// Kinds of line.
enum tern_csv_line {
    TERN_CSV_ROW,
    TERN_CSV_REPEATED, // the header line again, in any case, from concatenated files
    TERN_CSV_UNITS,    // a second line with units or other texts instead of numbers
    TERN_CSV_EMPTY,    // all fields are empty
};

// Profiles a whole table. Free *profile also on error.
// Errors of tern_csv_columns_learn() and tern_csv_next()
// TERN_ERR_CONFIG   the first line can be names or a row, and choice->header is TERN_CSV_HEADER_AUTO
// TERN_ERR_CORRUPT  there are no rows, or every line has another number of fields than the first
TERN_MUST_USE enum tern_result tern_csv_profile_read(struct tern_input *input,
                                                     const struct tern_csv_choice *choice,
                                                     struct tern_csv_profile *profile);
void tern_csv_profile_free(struct tern_csv_profile *profile);

// Whether a column's numbers are equal in float32, the type of models' inputs: 1000000000.1, 1000000000.2.
bool tern_csv_is_flat(const struct tern_csv_column *column);

// Whether the column has only 0, 1, missing values and words such as true and no, which are then read as 1 and 0.
bool tern_csv_has_flags(const struct tern_csv_column *column);

// Reads a feature's number; false: the value is missing or not a number.
bool tern_csv_read_value(const struct tern_csv_column *column, const char *text, float *value);

// Returns the kind of the current record of the profiled table. Do not call for the header line.
enum tern_csv_line tern_csv_profile_line(const struct tern_csv_profile *profile,
                                         const struct tern_csv *csv);

// Whether a setting's list of classes can have the label.
bool tern_csv_is_listable(const char *name);

// Writes the sorted labels as a list of classes: "blocked|good|worn". false: they do not fit into size bytes, or the
// list cannot have one of them.
bool tern_csv_profile_classes(const struct tern_csv_profile *profile, char *text, size_t size);

// Whether more than half of a column's fields that are not missing are numbers.
bool tern_csv_is_numeric(const struct tern_csv_column *column);

#endif
