// Runs many clients in one process against one aggregator: enrols them in order, runs each in a thread, prints a line
// per round and collects the results. The main thread calls it once per process.
#ifndef TERN_FLEET_H
#define TERN_FLEET_H

#include "fleet/member.h"
#include "fleet/results.h"
#include "fleet/settings.h"
#include "fleet/shares.h"
#include <signal.h>

struct tern_fleet_run {
    const struct tern_fleet_settings *settings;
    uint32_t planned_rounds; // number in the progress lines; 0: unknown
    bool pooled;             // also trains one client with all rows, for comparison
    FILE *out;               // stream of the progress lines
    const volatile sig_atomic_t *interrupted; // the run ends soon after it becomes true
};

// Runs the fleet until the federation finishes. Deterministic: the same settings against a new aggregator with the
// same settings give the same model.
// TERN_OK     *results is filled; the caller clears it
// TERN_AGAIN  interrupted
// Other errors: why has the reason. Threads may still run: end the process without cleanup. Clients survive this like
// a power cut.
TERN_MUST_USE enum tern_result tern_fleet_run(const struct tern_fleet_run *run,
                                              struct tern_fleet_results *results, char why[512]);

// Checks the settings as tern_fleet_run() does, without the aggregator: opens and partitions the data. TERN_OK, or
// why has the reason.
TERN_MUST_USE enum tern_result tern_fleet_check(const struct tern_fleet_settings *settings,
                                                const char *model_spec, char why[512]);

#endif
