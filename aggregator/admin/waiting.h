// Why nothing happens in a federation, or whom its open round waits for, by the store and the settings:
// for `status` and the admin API. Reentrant.
#ifndef TERN_ADMIN_WAITING_H
#define TERN_ADMIN_WAITING_H

#include "admin/rows.h"
#include "rounds/ending.h"
#include "rounds/tags.h"

// The settings that this depends on, by their names.
struct tern_waiting_rules {
    uint32_t rounds;
    uint32_t min_clients;
    uint32_t cohort;
    uint32_t quorum; // 0 = half the cohort
    uint64_t eligible_within_ms;
    uint64_t come_back_min_ms;
    uint64_t interval_ms; // round.min_interval
    bool interval_is_auto;
    bool
        fits_budgets; // rounds are fitted to clients' budgets, by schedule.policy or round.selection
    struct tern_ending_policy ending;
    struct tern_tags_wanted tags;    // of round.selection
    bool statistics_are_wanted;      // statistics.columns = clients
    uint32_t statistics_min_clients; // 0 = min_clients
};

#define TERN_WAITING_MEMBERS 50

struct tern_waiting_member {
    struct tern_db_client client;
    bool has_task; // else it has not come for it
};

struct tern_waiting {
    char sentence[400];
    char advice[384]; // what to do about it
    bool needs_help;  // it does not end by itself
    // Of the open round's members without an update, those that were seen longest ago.
    struct tern_waiting_member members[TERN_WAITING_MEMBERS];
    uint32_t shown;
    uint32_t missing; // all of them
};

// Replaces the advice.
void tern_waiting_advise(struct tern_waiting *waiting, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// TERN_ERR_IO and the like: tern_db_error() says it
TERN_MUST_USE enum tern_result tern_waiting_load(struct tern_db *db,
                                                 const struct tern_waiting_rules *rules,
                                                 const struct tern_status *status, uint64_t now_ms,
                                                 struct tern_waiting *waiting);

#endif
