// Whether the first line of a table names its columns or is a row, where the choice leaves it open. For
// csv_profile.c. Hosted; reentrant.
#ifndef TERN_CSV_HEADER_H
#define TERN_CSV_HEADER_H

#include "hosted/csv_profile.h"

// first: the fields of the first line, one for each column; the profile is of all other lines.
// TERN_ERR_CONFIG  it can be read in both ways
TERN_MUST_USE enum tern_result tern_csv_header_decide(const struct tern_input *input,
                                                      struct tern_csv_profile *profile,
                                                      const struct tern_csv_choice *choice,
                                                      const char *const *first);

// Whether more than half of a column's fields, but for missing ones, are numbers.
bool tern_csv_is_numeric(const struct tern_csv_column *column);

#endif
