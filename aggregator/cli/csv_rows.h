// Rows of JSON as CSV (RFC 4180, but lines end as the system's do). Used from the main thread only.
#ifndef TERN_AGGREGATOR_CSV_ROWS_H
#define TERN_AGGREGATOR_CSV_ROWS_H

#include "cli/state.h"

// Prints an array of objects, or one, with a column for every key that any of them has, in the order in
// which they are met; null and what is not there are empty, an object within is its JSON. Frees the value
// and returns the exit code.
int tern_csv_print(const struct tern_cli *cli, cJSON *value);

#endif
