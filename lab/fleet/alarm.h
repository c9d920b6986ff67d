// Watches the measurements of a run for early signs that it is in vain: a loss that is not finite or explodes, a
// figure (fleet/figure.h) that collapses, or is no better than an answer that looks at no feature. Pure; the main
// thread calls it.
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
    double chance;           // the figure of the best answer that looks at no feature
    char guess[96];          // which one that is: "always answering 'ok'"
    const char *figure;      // name of the figure
    uint32_t classes;        // of the data set; 0 of a model that tells none
    uint32_t planned_rounds; // 0 = not known
    double best;             // figure so far, once measured
    bool measured;
    bool moot, exploded, fell; // has been reported
    uint32_t idle;             // how many of the reports that nothing is learnt have been made
};

// Begins to watch a classifier. The guess that it must beat is the test set's most frequent class. names: of the classes.
void tern_alarm_of_classes(struct tern_alarm *alarm, const struct tern_dataset *test,
                           const struct tern_name_set *names, uint32_t planned_rounds);

// Whether there is something to warn of that was not reported before, and the sentence. found: what the evaluator
// measured of the version. One that tells no classes makes the alarm of its figure. num_examples 0: not measured.
bool tern_alarm_rings(struct tern_alarm *alarm, uint32_t version,
                      const struct tern_evaluate_result *found, char text[TERN_ALARM_MAX]);

#endif
