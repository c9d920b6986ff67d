// Selects the clients of a round: how many, and which. Each eligible client has chances between 0 and 1, which a seeded
// draw compares; a seeded sample of those that pass fills the cohort. aggregator/federation calls it before it opens or
// extends a round. Pure; reentrant; the result depends on (seed, round, attempt) and the chances alone.
#ifndef TERN_SELECTION_H
#define TERN_SELECTION_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

// --- The cohort

// How many updates to want from `eligible` clients: the larger of cohort and ceil(fraction *
// eligible) (C of McMahan et al., AISTATS 2017, algorithm 1). fraction: 0..1.
uint32_t tern_cohort_target(uint32_t cohort, double fraction, uint32_t eligible);

// How many clients to invite for `target` updates: ceil(target * (1 + over_selection)), at most
// `eligible`. over_selection: 0..10.
uint32_t tern_cohort_size(uint32_t target, double over_selection, uint32_t eligible);

// Moves `want` ids drawn without replacement from ids[0..count) to its front, in ascending order.
// ids are ascending on entry, so that the draw depends on the set alone; the rest of ids is in no
// order afterwards. want <= count. The draw depends on (seed, round, attempt).
void tern_cohort_sample(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                        uint32_t count, uint32_t want);

// --- Which clients may be in it

enum tern_client_selection {
    TERN_SELECTION_RANDOM,       // all with the same chance
    TERN_SELECTION_AVAILABILITY, // prefers clients that are likely to report at little cost
    TERN_SELECTION_BUDGET,       // rarely clients whose bytes would not last
};

// "random", "availability" or "budget-aware". TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_selection_from_name(const char *name,
                                                        enum tern_client_selection *selection);
const char *tern_selection_names(void); // for error messages; static string

// How likely a client is to report in time, and how welcome that is to its owner: 1 when it was
// seen within `window_ms`, else window / age; of that, the share of its tasks that it reports; half of it on
// battery, half of it on a metered link; at least 1/16, because a client that is never invited never shows that it is there.
struct tern_availability {
    uint64_t age_ms;    // since it was last seen
    uint64_t window_ms; // of a round
    float unreported;   // share of its tasks (rounds/reliability.h)
    bool metered;
    bool battery;
};
double tern_selection_availability(const struct tern_availability *client);

struct tern_selection_chance {
    double welcome; // beside the others; counts only while enough are there
    double affords; // a promise to its owner, broken only where the round could not count otherwise
};

struct tern_need {
    uint32_t wanted; // to fill the cohort
    uint32_t least;  // without whom the round would miss its quorum
};

// Moves the clients that may be drawn to the front of ids[0..count), which are ascending and stay
// so; returns how many. With fewer than wanted all `welcome` are doubled until there are enough or
// everybody is welcome, and with fewer than least, then, all `affords` raised alike by no more than
// it takes, or until everybody is in whose chance is above 0. attempt: of the draw, 1 at a round's
// opening; who could not afford the round in its first draw cannot in the next ones.
uint32_t tern_selection_thin(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                             uint32_t count, const struct tern_need *need,
                             struct tern_selection_chance (*chance)(const void *ctx, uint64_t id),
                             const void *ctx);

// Whether rounds can count on a client, by when it enrolled and was last seen: a client comes right after it enrols, and one
// that has not come since does not count. seen_ms: 0 = never; created_ms or earlier =
// not since. come_back_min_ms: of the policy.
uint64_t tern_selection_newcomer_ms(uint64_t come_back_min_ms); // that it may take to come
bool tern_selection_came(uint64_t created_ms, uint64_t seen_ms, uint64_t come_back_min_ms,
                         uint64_t now);

#endif
