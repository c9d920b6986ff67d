// Many clients in one process against one aggregator: enrols them in order, runs each in a thread,
// prints a line per round and gathers the results. Called once per process, from the main thread.
#ifndef TERN_FLEET_H
#define TERN_FLEET_H

#include "fleet/member.h"
#include "fleet/results.h"
#include "fleet/settings.h"
#include "fleet/shares.h"
#include <signal.h>

struct tern_fleet_run {
    const struct tern_fleet_settings *settings;
    uint32_t planned_rounds;                  // for the progress lines; 0 = not known
    bool pooled;                              // trains once more on all rows, for comparison
    FILE *out;                                // of the progress lines
    const volatile sig_atomic_t *interrupted; // the run ends soon after it becomes true
};

// Runs the fleet until the federation is finished. Deterministic: the same settings against a new
// aggregator with the same settings give the same model.
// TERN_OK     *results is filled; clear it
// TERN_AGAIN  interrupted
// otherwise why says what failed. Threads may be under way then: end the process without cleaning
// up (clients survive that as they survive a power cut).
TERN_MUST_USE enum tern_result tern_fleet_run(const struct tern_fleet_run *run,
                                              struct tern_fleet_results *results, char why[512]);

// What tern_fleet_run() would refuse of the settings, before it asks the aggregator: opens the data
// and shares it out. TERN_OK, or why says what is wrong.
TERN_MUST_USE enum tern_result tern_fleet_check(const struct tern_fleet_settings *settings,
                                                const char *model_spec, char why[512]);

#endif
