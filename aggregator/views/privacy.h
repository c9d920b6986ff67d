// The differential privacy of a federation, from what its rounds recorded: epsilon and delta, or why no epsilon is true. `privacy`
// and `status` load it from the store, and the admin API for the dashboard. Reentrant.
#ifndef TERN_VIEW_PRIVACY_H
#define TERN_VIEW_PRIVACY_H

#include "rounds/privacy.h"
#include "store/store.h"
#include <cjson/cJSON.h>
#include <stdio.h>

struct tern_privacy_report {
    const struct tern_privacy_settings *settings;
    struct tern_db_exposure exposure;
    uint64_t restored_ms;
    bool copied;         // the federation continues in another database
    uint64_t clients;    // enrolled clients
    uint32_t rounds_max; // round.rounds; 0 = no end
    uint64_t to_come;    // rounds until round.rounds; 0 = none, or no end
    double delta;
    uint32_t refusals; // bit i: reason i of privacy.c holds, so that no epsilon is true
};

// Loads the report. settings and rounds_max: of the configuration, for the rounds to come. Errors of the store.
TERN_MUST_USE enum tern_result tern_privacy_load(struct tern_db *db,
                                                 const struct tern_privacy_settings *settings,
                                                 uint32_t rounds_max,
                                                 struct tern_privacy_report *report);

// Whether noise protects the federation's rounds, or will.
bool tern_privacy_is_used(const struct tern_privacy_report *report);

// Writes one line for `status`, without a line feed.
#define TERN_PRIVACY_LINE 256
void tern_privacy_line(const struct tern_privacy_report *report, char line[TERN_PRIVACY_LINE]);

// Prints the figures or the refusals, and the assumptions.
void tern_privacy_print(const struct tern_privacy_report *report, FILE *out);
// The same as an object; NULL: no memory.
cJSON *tern_privacy_json(const struct tern_privacy_report *report);

#endif
