// What the label's column of a table is to be learnt as where nobody chose it: classes or a number. One decision for
// `tern-aggregator init --data` and `tern-client check --data`. Hosted; reentrant.
#ifndef TERN_CSV_TASK_H
#define TERN_CSV_TASK_H

#include "hosted/csv_profile.h"

#define TERN_CSV_TASK_WHY_MAX 1536
#define TERN_CSV_CLASSES_MAX 450 // bytes of their list
#define TERN_CSV_VALUES_MAX 20   // numbers of more different values are a target

// Whether the labels, profiled as classes, are numbers with fractions or of many different values.
bool tern_csv_is_target(const struct tern_csv_profile *profile);

// What is to be looked at.
struct tern_csv_task {
    const struct tern_csv_profile *profile;
    const char *data;   // the table's place, for sentences
    uint32_t least;     // classes that there must be
    bool unique;        // classes may mostly occur once
    bool mixed;         // a text among numbers is a class
    const char *listed; // the classes, chosen by a user; NULL: those that the table has
};

// Writes the classes as a data spec lists them, "" where the labels are class numbers already. false: *why says why no
// classes can be made of the labels.
bool tern_csv_list_classes(const struct tern_csv_task *task, char classes[TERN_CSV_CLASSES_MAX],
                           char why[TERN_CSV_TASK_WHY_MAX]);

// Whether the label's column has numbers that differ; false: *why says what it has.
bool tern_csv_check_target(const struct tern_csv_task *task, char why[TERN_CSV_TASK_WHY_MAX]);

#endif
