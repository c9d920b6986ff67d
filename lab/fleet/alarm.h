// Watches a run's measurements for early signs of failure: a loss that is not finite or explodes, or a figure
// (fleet/figure.h) that collapses or stays at the level of guessing. Pure; the main thread calls it.
#ifndef TERN_FLEET_ALARM_H
#define TERN_FLEET_ALARM_H

#include "data/dataset.h"
#include "hosted/name_set.h"
#include "ports.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_ALARM_MAX 240 // bytes of a warning with the terminating NUL

struct tern_alarm {
    double chance;           // figure of the best constant guess
    char guess[96];          // description of that guess, as "always answering 'ok'"
    const char *figure;      // name of the figure
    uint32_t classes;        // number of the data set's classes; 0: not a classifier
    uint32_t planned_rounds; // 0: unknown
    double best;             // best figure so far; valid if `measured`
    bool measured;
    bool moot, exploded, fell; // true once the warning was reported
    uint32_t idle;             // number of "no better than guessing" warnings so far
};

// Starts watching a classifier. Its guess is the most frequent class of the test set. names: of the classes.
void tern_alarm_of_classes(struct tern_alarm *alarm, const struct tern_dataset *test,
                           const struct tern_name_set *names, uint32_t planned_rounds);

// Returns true and a sentence if there is a warning that was not given before. found: the evaluator's measurement of
// the version; num_examples 0: not measured.
bool tern_alarm_rings(struct tern_alarm *alarm, uint32_t version,
                      const struct tern_evaluate_result *found, char text[TERN_ALARM_MAX]);

#endif
