// Selects the clients of a round: how many, and which. Each client has chances between 0 and 1, and passes a seeded
// random draw with these chances. A seeded sample of the clients that pass fills the cohort. aggregator/federation
// calls this module before it opens or extends a round. Pure; reentrant; the result depends on (seed, round, attempt)
// and the chances alone.
#ifndef TERN_SELECTION_H
#define TERN_SELECTION_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

// --- The cohort

// Returns how many updates a round wants: the larger of cohort and ceil(fraction * eligible) (C of McMahan et al.,
// AISTATS 2017, algorithm 1). fraction: 0..1.
uint32_t tern_cohort_target(uint32_t cohort, double fraction, uint32_t eligible);

// Returns how many clients to invite for `target` updates: ceil(target * (1 + over_selection)), at most `eligible`.
// over_selection: 0..10.
uint32_t tern_cohort_size(uint32_t target, double over_selection, uint32_t eligible);

// Draws `want` <= count ids without replacement, and moves them to the front of ids[0..count), in ascending order; the
// other ids are then in no order. ids must be ascending, so that the result depends only on the set and on (seed,
// round, attempt).
void tern_cohort_sample(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                        uint32_t count, uint32_t want);

// --- Which clients may be drawn

enum tern_client_selection {
    TERN_SELECTION_RANDOM,       // gives all clients the same chance
    TERN_SELECTION_AVAILABILITY, // prefers clients that are likely to report at little cost
    TERN_SELECTION_BUDGET,       // seldom draws clients whose byte budget would not last
};

// Sets *selection by its name: "random", "availability" or "budget-aware". TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_selection_from_name(const char *name,
                                                        enum tern_client_selection *selection);
const char *tern_selection_names(void); // names for error messages; a static string

// Returns a client's chance by availability: min(1, window / age), times the fraction of its tasks that it reports,
// halved on battery, halved on a metered link. At least 1/16, because a client that is never invited cannot show that
// it has become available.
struct tern_availability {
    uint64_t age_ms;    // time since the client was last seen
    uint64_t window_ms; // length of a round's window
    // Fraction of its tasks that the client did not report (rounds/reliability.h).
    float unreported;
    bool metered;
    bool battery;
};
double tern_selection_availability(const struct tern_availability *client);

struct tern_selection_chance {
    // Chance by preference over other clients; ignored when clients are scarce.
    double preference;
    // protects the client's byte budget; raised only if the round would miss its quorum
    double affordable;
};

struct tern_selection_need {
    uint32_t wanted; // clients that fill the cohort
    uint32_t least;  // clients below which the round misses its quorum
};

// Keeps the clients that pass the draw at the front of ids[0..count), which is and stays ascending. Returns how many
// pass. With fewer than need->wanted it doubles all `preference` chances until enough pass or all do. With fewer than
// need->least it then scales all `affordable` chances by the smallest sufficient factor; a chance of 0 stays 0.
// attempt: number of the round's selection, 1 at its opening. A client that fails by `affordable` in the first
// selection fails in all selections of the round.
uint32_t tern_selection_filter(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                               uint32_t count, const struct tern_selection_need *need,
                               struct tern_selection_chance (*chance)(const void *ctx, uint64_t id),
                               const void *ctx);

// Returns how long a new client may take until its first check-in. come_back_min_ms: the round policy's member of this
// name.
uint64_t tern_selection_first_checkin_ms(uint64_t come_back_min_ms);
// Whether rounds can count on a client: it has checked in since it enrolled, or enrolled just now. created_ms: when it
// enrolled. seen_ms: when it was last seen; 0 = never.
bool tern_selection_has_checked_in(uint64_t created_ms, uint64_t seen_ms, uint64_t come_back_min_ms,
                                   uint64_t now);

#endif
