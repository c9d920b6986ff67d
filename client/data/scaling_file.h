// The statistics that all clients of a federation scale their columns by: a CSV table of the columns
// `column`, `mean` and `deviation`, a row for each feature in the order of the table's. tern-aggregator
// init --data writes one. Behind them stands that of the target, where there is one. Hosted; reentrant.
#ifndef TERN_SCALING_FILE_H
#define TERN_SCALING_FILE_H

#include "data/readers.h"
#include "data/rows.h"

// Makes (value - mean) / deviation of every value of train and test. names: of the features, each
// with a NUL; NULL where the table has no header line, and order alone counts. On error spec->why
// says what is wrong, and the rows may be scaled in part. target: the option that names its column;
// NULL: there is none.
// TERN_ERR_CONFIG   there is no such file
// TERN_ERR_CORRUPT  other columns than the table's, a mean that is no number, a deviation that is
//                   not positive; errors of tern_csv_next()
TERN_MUST_USE enum tern_result tern_scaling_file_apply(const struct tern_data_spec *spec,
                                                       const char *path, const char *names,
                                                       const char *target, struct tern_rows *train,
                                                       struct tern_rows *test);

#endif
