// What a CSV table holds, column by column: whether its first line names them, statistics of its
// numbers, its labels, and where what cannot be learnt from stands. Every program that reads a table
// profiles it first, so that init, check, run, predict and experiments read it alike; csv_judge.h makes
// sentences of it. It goes on over whatever is wrong, so that all of it can be named at once. Hosted;
// reentrant.
#ifndef TERN_HOSTED_CSV_PROFILE_H
#define TERN_HOSTED_CSV_PROFILE_H

#include "hosted/csv_columns.h"
#include "hosted/csv_order.h"
#include "hosted/name_set.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_CSV_FEATURES_MAX 1048576u
#define TERN_CSV_LABELS_MAX 4096u
#define TERN_CSV_TEXTS_MAX 20u // different texts of a feature's column that are counted

// Magnitudes from here on are no measurement but a mark, of a value that is missing or a fault.
#define TERN_CSV_HUGE 1e15

// Fields or lines of one kind.
struct tern_csv_found {
    uint64_t count;
    uint64_t line; // of the first, from 1
    char text[32]; // of the first, cut
};

// The lowest or highest of a column's numbers.
struct tern_csv_edge {
    double value;
    double next;    // the number beside it; value: there is none
    uint64_t count; // rows that have it
    uint64_t line;  // of the first of them
    uint32_t far;   // different numbers at this end that are far beyond all others (csv_profile.c)
};

struct tern_csv_distinct; // private

struct tern_csv_column {
    const char *name; // from the header line; else its number, from 0
    bool feature;     // statistics are of these and of the label's column
    uint64_t numbers; // finite ones below TERN_CSV_HUGE, of which are:
    double mean;
    double deviation; // of all of them, not of a sample
    double low;
    double high;
    struct tern_csv_edge bottom;
    struct tern_csv_edge top;
    uint64_t distinct; // different ones; 0: too many to count
    struct tern_csv_order order;
    enum tern_csv_suspect suspect;
    struct tern_csv_found missing;  // empty fields, NA, ? and their kin
    struct tern_csv_found doubtful; // none, -, unknown: of numbers they are missing values
    struct tern_csv_found bad;      // texts, and numbers that are not finite in float32
    struct tern_csv_found like;     // those of bad that were written for a number: "<0.5", "1,5"
    struct tern_csv_found huge;     // numbers from TERN_CSV_HUGE on
    struct tern_csv_found
        flags; // true, no and their kin in a feature's column: bad, or numbers (tern_csv_has_flags())
    uint64_t yes; // those of flags that mean 1
    uint32_t
        texts; // different ones of bad and flags; TERN_CSV_TEXTS_MAX + 1: more than can be counted
    struct tern_csv_distinct *seen; // private
};

struct tern_csv_label {
    uint64_t count;
    uint64_t line; // of the first
};

struct tern_csv_profile {
    struct tern_csv_columns columns;
    struct tern_csv_column *column; // [columns.count]
    char *names;                    // of the columns, each with a NUL
    uint64_t rows;                  // with what may be wrong in them, but for those of ragged lines
    uint64_t first_row;             // its line
    uint64_t last_row;
    struct tern_name_set labels; // in order of arrival; none of choice->numeric
    bool many_labels; // there are more than TERN_CSV_LABELS_MAX, and `labels` has the first of them
    struct tern_csv_label *label;     // [TERN_CSV_LABELS_MAX], the first labels.count used
    struct tern_csv_found ragged;     // lines with another number of fields than the first
    uint32_t ragged_fields;           // that number, of the first of them
    struct tern_csv_found incomplete; // rows that lack a feature, the label or the target
    struct tern_csv_found skipped[3]; // lines that are no rows, by enum tern_csv_line - 1
    char *first; // the header line, its fields each with a NUL, NULL: there is none; private
    size_t first_len;
    bool first_named;                   // no field of it is a number
    struct tern_csv_distinct *distinct; // [columns.count]; private
};

// Kinds of line.
enum tern_csv_line {
    TERN_CSV_ROW,
    TERN_CSV_REPEATED, // the header line again, in any case, as where files were put together
    TERN_CSV_UNITS,    // the second line, with units or other texts in the place of numbers
    TERN_CSV_EMPTY,    // nothing in any field
};

// Reads a whole table. *profile is to be freed, also on error.
// Errors of tern_csv_columns_learn() and tern_csv_next()
// TERN_ERR_CONFIG   the first line can be read as names and as a row, and choice->header leaves it open
// TERN_ERR_CORRUPT  there are no rows, or every line has another number of fields than the first
TERN_MUST_USE enum tern_result tern_csv_profile_read(struct tern_input *input,
                                                     const struct tern_csv_choice *choice,
                                                     struct tern_csv_profile *profile);
void tern_csv_profile_free(struct tern_csv_profile *profile);

// Whether a column's numbers differ by less than float32, which models take, can hold: 1000000000.1, 1000000000.2.
bool tern_csv_is_flat(const struct tern_csv_column *column);

// Whether the column has only words such as true and no, beside 0, 1 and missing values: they are read as 1 and 0.
bool tern_csv_has_flags(const struct tern_csv_column *column);

// Reads a feature's number; false: the text is missing, or none.
bool tern_csv_read_value(const struct tern_csv_column *column, const char *text, float *value);

// Returns the kind of the current record of the profiled table. Not for the header line itself.
enum tern_csv_line tern_csv_profile_line(const struct tern_csv_profile *profile,
                                         const struct tern_csv *csv);

// Whether a list of classes, which is a part of a setting, can hold the label.
bool tern_csv_is_listable(const char *name);

// Writes the labels as the list of classes that a data spec has, "blocked|good|worn", sorted. false
// when they do not fit into size bytes, or one holds what such a list cannot.
bool tern_csv_profile_classes(const struct tern_csv_profile *profile, char *text, size_t size);

// --- csv_header

// Whether the first line of a table names its columns or is a row, where the choice leaves it open. For
// csv_profile.c. Hosted; reentrant.

// first: the fields of the first line, one for each column; the profile is of all other lines.
// TERN_ERR_CONFIG  it can be read in both ways
TERN_MUST_USE enum tern_result tern_csv_header_decide(const struct tern_input *input,
                                                      struct tern_csv_profile *profile,
                                                      const struct tern_csv_choice *choice,
                                                      const char *const *first);

// Whether more than half of a column's fields, but for missing ones, are numbers.
bool tern_csv_is_numeric(const struct tern_csv_column *column);

#endif
