// Assigns the columns of a CSV table: label or target, group, dropped columns and features, from its first line and the
// user's choice. Also finds the columns of new data by the names in the table that the model was trained on. Reentrant.
#ifndef TERN_HOSTED_CSV_COLUMNS_H
#define TERN_HOSTED_CSV_COLUMNS_H

#include "hosted/csv.h"
#include "hosted/name_set.h"

#define TERN_CSV_NO_COLUMN UINT32_MAX
#define TERN_CSV_NAME_MAX 256 // bytes of a listed name, with the NUL

enum tern_csv_header {
    TERN_CSV_HEADER_AUTO, // the table decides (csv_profile.h)
    TERN_CSV_HEADER_YES,  // the first line names the columns
    TERN_CSV_HEADER_NO,   // the first line is a row of data
};

// How missing values are treated.
enum tern_csv_missing {
    TERN_CSV_MISSING_MEAN, // features get their column's mean; a missing label or target is an error
    TERN_CSV_MISSING_SKIP,   // rows that lack a feature, label or target are skipped
    TERN_CSV_MISSING_REFUSE, // any missing feature, label or target is an error
    // rows that lack the label or target are skipped; features get their column's mean
    TERN_CSV_MISSING_SKIP_UNLABELLED,
};

static inline bool tern_csv_fills_features(enum tern_csv_missing missing)
{
    return missing == TERN_CSV_MISSING_MEAN || missing == TERN_CSV_MISSING_SKIP_UNLABELLED;
}

static inline bool tern_csv_skips_unlabelled(enum tern_csv_missing missing)
{
    return missing == TERN_CSV_MISSING_SKIP || missing == TERN_CSV_MISSING_SKIP_UNLABELLED;
}

// The user's choice. A column is given by its name in the header line, or by a number: 0 is the first, -1 the last. Where
// a column has that number as its name, the name decides.
struct tern_csv_choice {
    const char *label; // column of the label or target; NULL: the last column
    bool unlabelled;   // the table has no label
    bool numeric;      // the label is a target: a number to predict
    // columns to leave out, separated by '|', or by ',' where no name has one; NULL: none
    const char *drop;
    const char *group;  // column with the owner of each row, not a feature; NULL: none
    bool features_only; // new data: named label, drop and group columns may be missing
    enum tern_csv_header header;
    enum tern_csv_missing missing;
    // allowed labels, separated by '|'; a last "*" means all others; NULL: class numbers
    const char *classes;
    bool scaled; // a file has each column's mean and deviation
    // The names of the training table. They find the columns of a table with a header line; `label`, `drop` and `group`
    // then have no effect. NULL: columns are found by position.
    struct tern_csv_names *trained;
};

struct tern_csv_columns {
    bool *skipped; // [count] the column is not a feature; malloc'ed
    // [count] index of each column's feature in the model; malloc'ed; NULL: in order
    uint32_t *place;
    uint32_t count;    // columns of a line
    uint32_t features; // columns that are not skipped
    uint32_t label;    // TERN_CSV_NO_COLUMN: none
    uint32_t group;    // TERN_CSV_NO_COLUMN: none
    bool header;       // the first line names the columns; the profile may still set it
    // A column that was given by a name which is also another column's number; TERN_CSV_NO_COLUMN: none.
    uint32_t named_number;
    // A column was taken by a number that the first line has in another column.
    bool number_is_name;
    // With number_is_name: the column whose name was given, where no column has this number.
    uint32_t only_named;
};

// Assigns the columns from the current record, the table's first. Free *columns also on error.
// TERN_ERR_NOT_FOUND  no such column
// TERN_ERR_CONFIG     the label's column is also dropped or the group, two columns have the given name, or a column is
//                     given by name and choice->header is no
// TERN_ERR_CORRUPT    no features, or a separator other than the comma; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_columns_learn(const struct tern_csv *csv,
                                                      const struct tern_csv_choice *choice,
                                                      struct tern_csv_columns *columns);
void tern_csv_columns_free(struct tern_csv_columns *columns);

// Lists of names separated by '|'. NULL is the empty list.
bool tern_csv_list_has(const char *names, const char *name);
uint32_t tern_csv_list_count(const char *names);
// Whether a list of classes ends with "*", which stands for all other labels.
bool tern_csv_list_has_others(const char *classes);
// Copies the first name, cut to the buffer, and advances *rest behind it. false: *rest is NULL, at the end of the list.
bool tern_csv_list_next(const char **rest, char name[TERN_CSV_NAME_MAX]);

// Whether a text in the label's column marks a missing label or target. Labels in choice->classes never do; with such a
// list, words such as "unknown" and numbers such as -999 do.
bool tern_csv_lacks_label(const struct tern_csv_choice *choice, const char *text);

// --- Names of the training table

// `tern-client predict` finds the features of new data by these names: the columns may be in another order, with others
// between them.

struct tern_csv_names {
    struct tern_name_set features; // in the model's order; empty: find columns by position
    char *label;                   // malloc'ed; NULL: none
    char *twins; // where two features share a name: all names in order, each with a NUL; malloc'ed
    uint32_t twin_count; // names in twins
};

struct tern_csv_profile;

// Copies the names of a profiled table; `features` stays empty where it has no header line, or two features share a
// name. Free *names also on error. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_names_take(const struct tern_csv_profile *profile,
                                                   struct tern_csv_names *names);
void tern_csv_names_free(struct tern_csv_names *names);

// Whether the current record, a table's first, is a header line: it has all feature names, or one of them that is not a
// number, or no number at all.
bool tern_csv_names_head(struct tern_csv_names *names, const struct tern_csv *csv);

// Writes the feature's index for each field of the header line to place[csv->field_count]; TERN_CSV_NO_COLUMN: the field
// is not a feature.
// TERN_ERR_NOT_FOUND  a feature has no column; TERN_ERR_CONFIG  it has two; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_names_place(struct tern_csv_names *names,
                                                    const struct tern_csv *csv, uint32_t *place);

// Where features share a name and are found by position: compares the header line with the training table's.
// skipped: [csv->field_count] the field is not a feature.
// TERN_ERR_CONFIG  the order differs
TERN_MUST_USE enum tern_result tern_csv_names_check_order(const struct tern_csv_names *names,
                                                          const struct tern_csv *csv,
                                                          const bool *skipped);

#endif
