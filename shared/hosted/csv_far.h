// Finds numbers so far beyond all others of a column that they spoil its mean and deviation: a slipped decimal point, a
// counter that overflowed, a mark of a missing value. Called by the profile of a table. Hosted; reentrant.
#ifndef TERN_CSV_FAR_H
#define TERN_CSV_FAR_H

#include <stdbool.h>
#include <stdint.h>

// Counts the numbers at one end that are far beyond the others. A group of many there is another kind of rows, and not
// far. number[0..count): different ones, ascending. top: the end with the highest.
uint32_t tern_csv_count_far(const double *number, uint32_t count, bool top);

#endif
