// What a data spec of the kind csv chooses of its table. Hosted; reentrant.
#ifndef TERN_CSV_CHOICE_H
#define TERN_CSV_CHOICE_H

#include "hosted/csv_columns.h"
#include "hosted/data_spec.h"

// Reads the options label, target, drop, classes, group, header, missing, and whether scale names a file. The texts
// of *choice are the spec's.
// TERN_ERR_CONFIG  an option that tables do not have, options that exclude each other, or a word that is none of an
// option's
TERN_MUST_USE enum tern_result tern_csv_choose(struct tern_data_spec *spec,
                                               struct tern_csv_choice *choice);

#endif
