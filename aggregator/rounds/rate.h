// Computes the learning rate of local training for each round. federation/round.c and closing.c call this module when a
// round opens and when a round was committed. Pure; reentrant; the same bits everywhere, since it uses no libm.
#ifndef TERN_RATE_H
#define TERN_RATE_H

#include "result.h"
#include "util/spec.h"
#include <stdint.h>

enum tern_rate_schedule {
    TERN_RATE_CONSTANT,
    // The rate falls from `first` along half a cosine wave; `last` is one round after the end.
    TERN_RATE_COSINE,
    TERN_RATE_STEP, // the rate is multiplied by `decay` after every `decay_rounds`
    // The rate is multiplied by `decay` after `decay_rounds` in a row without a lower loss.
    TERN_RATE_PLATEAU,
};

struct tern_rate_policy {
    enum tern_rate_schedule schedule;
    float first;
    float last;  // cosine: the rate after the last round; step and plateau: the lowest rate
    float decay; // factor above 0, below 1
    uint32_t decay_rounds; // >= 1
    // With n warm-up rounds before the schedule, round r of them has r / (n + 1) of `first`.
    uint32_t warmup_rounds;
};

// State of the schedule, which follows from the stored rows of earlier rounds.
struct tern_rate_state {
    uint32_t decays;             // how often the rate of the last opened round was decayed
    uint32_t rounds_since_decay; // rounds committed since `decays` changed
};

// Spec strings (util/spec.h): "cosine:rate=0.05,warmup=10"; a number alone, "0.05", is constant:rate=0.05.
extern const struct tern_spec_list tern_rate_specs;

// Parses a spec string. Errors of tern_spec_parse(), with the reason in `why`; on error *policy is unchanged.
TERN_MUST_USE enum tern_result tern_rate_parse(const char *spec, struct tern_rate_policy *policy,
                                               char why[TERN_SPEC_SENTENCE_MAX]);

// Records that a round opened with a rate that was decayed `decays` times. Also called for each stored round at a
// start.
void tern_rate_round_opened(struct tern_rate_state *state, uint32_t decays);
// Records that the last opened round was committed. Also called for each stored round at a start.
void tern_rate_round_committed(struct tern_rate_state *state);

// Returns how many times the next round's rate is decayed, after `committed` rounds. since_lowest: number of committed
// rounds since the lowest training loss.
uint32_t tern_rate_decays(const struct tern_rate_policy *policy,
                          const struct tern_rate_state *state, uint32_t committed,
                          uint32_t since_lowest);

// Returns the learning rate of `round` (1..rounds) after `decays` decays. rounds = 0: the federation has no end, and
// cosine stays at its first rate.
float tern_rate_for(const struct tern_rate_policy *policy, uint32_t round, uint32_t rounds,
                    uint32_t decays);

#endif
