// Labels of a table that may be no classes: a word or number that marks a missing label, a line of units or sums that
// is no row, or a class that one row alone has. Hosted; reentrant.
#ifndef TERN_CSV_DOUBT_H
#define TERN_CSV_DOUBT_H

#include "hosted/csv_profile.h"

enum tern_csv_doubt {
    TERN_CSV_CERTAIN,
    TERN_CSV_ALONE,    // one row of many has it
    TERN_CSV_NO_LABEL, // it may mark a missing label: unknown, -, -999 among texts
    TERN_CSV_NO_ROW, // its line may be no row: it is the first or last and alone has this label, or has a total
};

enum tern_csv_doubt tern_csv_doubt_label(const struct tern_csv_profile *profile, uint32_t label);

// Asks about the labels that `listed` (classes between '|', NULL: none) does not have and that may be none. false: *why
// says which, and what to set.
bool tern_csv_ask_labels(const struct tern_csv_profile *profile, const char *data,
                         const char *listed, char *why, size_t size);

// Names the first text column of few values, which may be the label where nobody chose one and the last column has
// numbers. false: there is none.
bool tern_csv_hint_label(const struct tern_csv_profile *profile, char *hint, size_t size);

#endif
