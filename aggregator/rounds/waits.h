// Determines why a federation waits, from facts about its clients and rounds and from the settings. Called by the
// federation for metrics and the API, and by `tern-aggregator status` for a store that it reads. Pure; reentrant.
#ifndef TERN_WAITS_H
#define TERN_WAITS_H

#include "rounds/ending.h"
#include "rounds/privacy.h"
#include "rounds/tags.h"

enum tern_wait {
    TERN_WAIT_MEMBERS,  // waits for updates of the open round's members
    TERN_WAIT_ENDED,    // the losses ended the federation, so it does not wait
    TERN_WAIT_FINISHED, // all rounds are committed, so the federation does not wait
    TERN_WAIT_UPSTREAM, // a gateway waits for a task of the upstream aggregator
    TERN_WAIT_CLIENTS,  // waits for clients to enrol and check in
    TERN_WAIT_TICKETS,  // waits for clients with a ticket for the helper of secure rounds
    TERN_WAIT_HELPER, // waits for the helper of secure rounds, or for some time after a round without a sum
    TERN_WAIT_SEEN,       // waits for clients that have not checked in within round.eligible_within
    TERN_WAIT_STATISTICS, // waits for statistics of columns
    TERN_WAIT_BYTES,      // waits for byte budgets to be renewed
    TERN_WAIT_INTERVAL,   // waits for round.min_interval to pass
    TERN_WAIT_CHECKIN,    // waits for a check-in, which will open a round
    TERN_WAIT_COUNT
};

// Returns the reason's name, such as "members" or "ended".
const char *tern_wait_name(enum tern_wait wait);

// The settings that decide what the federation waits for, under their own names.
struct tern_wait_rules {
    uint32_t rounds;
    uint32_t min_clients;
    uint32_t cohort;
    uint32_t quorum; // configured quorum; 0 = half the cohort
    uint64_t eligible_within_ms;
    uint64_t come_back_min_ms;
    uint64_t interval_ms; // round.min_interval
    bool interval_is_auto;
    bool fits_budgets; // train.schedule or round.selection fits rounds to clients' byte budgets
    uint32_t secure_updates; // secure.min_clients times secure.groups; 0 = no secure rounds
    struct tern_ending_policy ending;
    struct tern_privacy_settings privacy;
    struct tern_tag_selection tags;  // required tags and spread key of round.selection
    bool statistics_are_enabled;     // statistics.columns = clients
    uint32_t statistics_min_clients; // statistics.min_clients; 0 = min_clients
    uint64_t statistics_wait_ms;     // time to wait for further statistics once there are enough
    // Id of the client that brings a gateway the upstream model; 0 = no gateway
    uint64_t upstream_client;
};

// Numbers of clients that may train and are not revoked.
struct tern_trainer_counts {
    uint32_t enrolled;           // clients that have checked in or have just enrolled
    uint32_t never_checked_in;   // clients that enrolled some time ago and have never checked in
    uint32_t recent;             // clients that checked in within round.eligible_within
    uint32_t out_of_budget;      // recent clients whose byte budget does not allow another round
    uint32_t with_statistics;    // clients whose statistics of columns are stored
    uint32_t missing_statistics; // enrolled clients whose statistics are not stored
    // Enrolled clients that another round would take above privacy.epsilon_max.
    uint32_t privacy_spent;
    uint32_t with_ticket;      // clients with an admitted ticket of the newest epoch
    uint32_t excluded_by_tags; // clients that round.selection excludes by tags; not counted above
};

// The facts about one client that decide whether it counts for waiting.
struct tern_wait_client {
    const char *tags;
    uint64_t created_ms;
    uint64_t last_seen_ms;
    bool budgeted;
    uint64_t budget_left; // reported bytes of the budget, minus those spent since
    uint64_t least_bytes; // fewest bytes that the client's next round takes; 0 = unknown
    bool has_statistics;  // the client's statistics of columns are stored
    bool privacy_spent;   // another round would raise its epsilon above privacy.epsilon_max
    bool has_ticket;      // the helper of secure rounds has admitted its ticket of the newest epoch
};

// Whether a client counts as enrolled (struct tern_trainer_counts) and has sent no statistics of its columns.
bool tern_wait_client_lacks_statistics(const struct tern_wait_rules *rules,
                                       const struct tern_wait_client *client, uint64_t now_ms);

void tern_trainer_counts_add(struct tern_trainer_counts *trainers,
                             const struct tern_wait_rules *rules,
                             const struct tern_wait_client *client, uint64_t now_ms);

#define TERN_WAIT_NAME 32

struct tern_wait_facts {
    bool open;      // a round is open
    uint32_t round; // number of the open or the last round; 0 = no round has opened
    uint64_t opened_ms;
    uint64_t deadline_ms;
    uint32_t quorum;
    uint64_t committed;        // number of committed rounds
    struct tern_losses losses; // losses of the committed rounds
    float last_loss;
    struct tern_trainer_counts trainers;
    uint64_t first_statistics_ms; // when the first statistics of columns arrived; 0 = not yet
    bool scaled;                  // the federation has a scaling
    // A gateway opens no round before the upstream aggregator has a task.
    bool awaits_upstream;
    // The last round has its updates, and the helper is asked for the sum of their masks.
    bool asks_helper;
    bool helper_silent;    // the helper does not answer; always false for facts from the store
    uint64_t abandoned_ms; // when the last round was abandoned without a sum; 0 = it was not
    char abandoned[TERN_WAIT_NAME]; // name of the reason, such as near-list
};

// The name of a secure round's reason when clients refused the helper's log.
#define TERN_HELPER_LOG_REASON "helper-log"

// Sets when and why the last round was abandoned. reason: its name, a colon and a sentence.
void tern_wait_set_abandoned(struct tern_wait_facts *facts, uint64_t closed_ms, const char *reason);
// Whether clients refused the helper's log in the last round, which was abandoned for it.
bool tern_wait_is_log_refused(const struct tern_wait_facts *facts);
// Whether the helper refused the last round's list as near an earlier one. It refuses later ones, too, until all clients of that
// earlier list have sent updates.
bool tern_wait_is_near_list(const struct tern_wait_facts *facts);

enum tern_wait tern_wait_reason(const struct tern_wait_rules *rules,
                                const struct tern_wait_facts *facts, uint64_t now_ms);

// Whether the wait ends only if an operator acts.
bool tern_wait_needs_help(enum tern_wait wait, const struct tern_wait_rules *rules,
                          const struct tern_wait_facts *facts);

// Whether the federation ends because a quorum has enrolled, and fewer clients may take part in another round.
bool tern_wait_has_spent_privacy(const struct tern_wait_rules *rules,
                                 const struct tern_trainer_counts *trainers);

// Returns how many clients with a ticket every secure round needs.
uint32_t tern_wait_tickets_needed(const struct tern_wait_rules *rules);
// Whether the first round needs statistics of columns, whether or not enough have arrived.
bool tern_wait_needs_scaling(const struct tern_wait_rules *rules,
                             const struct tern_wait_facts *facts);
// Returns how long the first round still waits for further statistics after it has enough; 0 = no longer.
uint64_t tern_wait_statistics_left_ms(const struct tern_wait_rules *rules,
                                      const struct tern_wait_facts *facts, uint64_t now_ms);

// Returns how many clients with statistics the first round needs.
uint32_t tern_wait_statistics_needed(const struct tern_wait_rules *rules);
// Returns how many clients with enough bytes for a round every round needs.
uint32_t tern_wait_clients_needed(const struct tern_wait_rules *rules,
                                  const struct tern_wait_facts *facts);

#endif
