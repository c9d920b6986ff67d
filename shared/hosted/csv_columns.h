// Which column of a CSV table is what: the label's, the group's, those that are left out, and the
// features, by its first line and what a user chose. Hosted; reentrant.
#ifndef TERN_HOSTED_CSV_COLUMNS_H
#define TERN_HOSTED_CSV_COLUMNS_H

#include "hosted/csv.h"
#include "hosted/name_set.h"

#define TERN_CSV_NO_COLUMN UINT32_MAX
#define TERN_CSV_NAME_MAX 256 // bytes of a name in a list, with the NUL

enum tern_csv_header {
    TERN_CSV_HEADER_AUTO, // the table decides (csv_profile.h)
    TERN_CSV_HEADER_YES,  // the first line names the columns
    TERN_CSV_HEADER_NO,   // the first line is a row of data
};

// What becomes of missing values.
enum tern_csv_missing {
    TERN_CSV_MISSING_MEAN,   // a feature's is its column's mean; a label or target must be there
    TERN_CSV_MISSING_SKIP,   // rows that lack a feature, label or target are left out
    TERN_CSV_MISSING_REFUSE, // a table that lacks one is refused
};

// Columns are given by their name in the header line or by a number from 0 (from -1 back).
struct tern_csv_choice {
    const char *label;  // NULL: the last column
    bool unlabelled;    // there is none
    bool numeric;       // it is a target, a number to be told
    const char *drop;   // those to leave out, between '|', or ',' where no name has one; NULL: none
    const char *group;  // that says whose row it is, no feature; NULL: none
    bool features_only; // the others may be missing where they are given by name, as of new data
    enum tern_csv_header header;
    enum tern_csv_missing missing;
    const char *
        classes; // the labels that may occur, between '|', the last "*": all others; NULL: class numbers
    bool scaled; // a file has each column's mean and deviation
    // Of the table that a model is trained on: a header line's columns are found by these, and `label`, `drop` and
    // `group` count only where there is none. NULL: columns go by their places.
    struct tern_csv_names *trained;
};

struct tern_csv_columns {
    bool *skipped; // [count] no feature; malloc'ed
    uint32_t *
        place; // [count] which feature each is, by choice->trained, malloc'ed; NULL: they stand in order
    uint32_t count;    // of every line
    uint32_t features; // columns that are not skipped
    uint32_t label;    // TERN_CSV_NO_COLUMN: none
    uint32_t group;    // TERN_CSV_NO_COLUMN: none
    bool header;       // the first line names them, by the choice; the table may decide so too
};

// Learns them from the current record, the table's first. *columns is to be freed, also on error.
// TERN_ERR_NOT_FOUND  no such column
// TERN_ERR_CONFIG     the label's column is given a second meaning, a name is that of two columns, or
//                     columns are given by name and choice->header is no
// TERN_ERR_CORRUPT    no features, or another separator than the comma; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_columns_learn(const struct tern_csv *csv,
                                                      const struct tern_csv_choice *choice,
                                                      struct tern_csv_columns *columns);
void tern_csv_columns_free(struct tern_csv_columns *columns);

// Whether a list of names between '|' has it; no list has any.
bool tern_csv_lists(const char *names, const char *name);

// Entries of a list; no list has none.
uint32_t tern_csv_count_listed(const char *names);

// Whether a list of classes ends with "*", which is every label that it does not name.
bool tern_csv_lists_others(const char *classes);

// Whether that text in the label's column says that there is no label or target. What choice->classes lists is a label;
// where it lists them, a doubtful word and a number as -999 are none.
bool tern_csv_lacks_label(const struct tern_csv_choice *choice, const char *text);

// Takes the text up to the next '|' of a list, cut to the buffer; false at its end, *rest == NULL.
bool tern_csv_next_name(const char **rest, char name[TERN_CSV_NAME_MAX]);

// --- csv_names

// The names of the columns of a table that a model is trained on, by which another table's columns are
// found: what `tern-client predict` asks about may have them in another order, and others beside. Hosted; one thread.

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
