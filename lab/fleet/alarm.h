// Looks at each version's measurement for what tells early that a run is in vain: a loss that is not
// finite or explodes, an accuracy that collapses, never gets beyond guessing, or says nothing. Pure;
// the main thread calls it.
#ifndef TERN_FLEET_ALARM_H
#define TERN_FLEET_ALARM_H

#include "data/dataset.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_ALARM_MAX 200 // bytes of a warning with the terminating NUL

// Zeroed but for the first three.
struct tern_alarm {
    double chance;                   // accuracy of the best guess that looks at no feature
    uint32_t classes;                // of the data set
    uint32_t planned_rounds;         // 0 = not known
    double best;                     // accuracy so far
    bool moot, exploded, fell, idle; // has been told
};

// The share of the most frequent class.
double tern_alarm_chance(const struct tern_dataset *test);

// Whether there is something to warn of that was not told before; text then says it. accuracy: NaN
// where the version was not measured.
bool tern_alarm_rings(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss,
                      char text[TERN_ALARM_MAX]);

#endif
