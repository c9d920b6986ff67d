// Why a federation waits, by what is known of its clients and rounds and by the settings: for the service,
// which tells it to operators, and for `status`, which reads the store. Pure.
#ifndef TERN_WAITS_H
#define TERN_WAITS_H

#include "rounds/ending.h"
#include "rounds/tags.h"

enum tern_wait {
    TERN_WAIT_MEMBERS,    // of the open round, for their updates
    TERN_WAIT_ENDED,      // for nothing: the losses have ended it
    TERN_WAIT_FINISHED,   // likewise: its rounds are done
    TERN_WAIT_ABOVE,      // of a gateway: for a task of the aggregator above
    TERN_WAIT_CLIENTS,    // that enrol, and come
    TERN_WAIT_SEEN,       // for one to come that was not seen for long
    TERN_WAIT_STATISTICS, // of columns
    TERN_WAIT_BYTES,      // budgets
    TERN_WAIT_INTERVAL,   // between rounds
    TERN_WAIT_CHECKIN,    // the next opens a round
    TERN_WAIT_COUNT
};

// "members", "ended", ...: static string.
const char *tern_wait_name(enum tern_wait wait);

// The settings that this depends on, by their names.
struct tern_wait_rules {
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
    uint64_t statistics_wait_ms;     // with those, for others
    uint64_t follower; // of a gateway: the client that brings the model from above; 0 = it is none
};

// Clients that may train, and were not revoked.
struct tern_trainers {
    uint32_t enrolled;   // and came, or have just enrolled
    uint32_t never_came; // but have enrolled
    uint32_t recent;     // seen within round.eligible_within
    uint32_t spent;      // of these, without the bytes for another round
    uint32_t told;       // statistics of columns, which are stored
    uint32_t untold;     // of those that came: none
    uint32_t other_tags; // than round.selection wants; not among the above
};

// What is known of one.
struct tern_waited {
    const char *tags;
    uint64_t created_ms;
    uint64_t last_seen_ms;
    bool budgeted;
    uint64_t budget_left; // bytes, less those that were spent since
    uint64_t least_bytes; // that its next round takes; 0 = not known
    bool has_told;        // statistics of columns
};

// Whether it has come, or has just enrolled, and has told no statistics of columns.
bool tern_trainer_is_missing_statistics(const struct tern_wait_rules *rules,
                                        const struct tern_waited *client, uint64_t now_ms);

void tern_trainers_add(struct tern_trainers *trainers, const struct tern_wait_rules *rules,
                       const struct tern_waited *client, uint64_t now_ms);

struct tern_wait_facts {
    bool open;      // a round is
    uint32_t round; // that, or the last one; 0 = there was none
    uint64_t opened_ms;
    uint64_t deadline_ms;
    uint32_t quorum;
    uint64_t committed;        // rounds
    struct tern_losses losses; // of those
    float last_loss;
    struct tern_trainers trainers;
    uint64_t first_told_ms; // when statistics of columns first came; 0 = none have
    bool scaled;            // there is a scaling
    bool awaits_above; // of a gateway: no round may open before the aggregator above has a task
};

enum tern_wait tern_wait_of(const struct tern_wait_rules *rules,
                            const struct tern_wait_facts *facts, uint64_t now_ms);

// Whether that ends only if somebody does something.
bool tern_wait_needs_help(enum tern_wait wait, const struct tern_wait_rules *rules,
                          const struct tern_wait_facts *facts);

// Whether the first round needs statistics of columns; they may be enough.
bool tern_wait_scales(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts);
// How long others' statistics are awaited once as many have told them as are needed; 0: no more.
uint64_t tern_wait_statistics_left_ms(const struct tern_wait_rules *rules,
                                      const struct tern_wait_facts *facts, uint64_t now_ms);

// Clients whose statistics, and clients that with bytes for a round, are needed.
uint32_t tern_wait_statistics(const struct tern_wait_rules *rules);
uint32_t tern_wait_updates(const struct tern_wait_rules *rules,
                           const struct tern_wait_facts *facts);

#endif
