// The learning rate of local training over the rounds. federation/round.c calls it when it opens a
// round and when it has committed one. Pure; reentrant; the same bits everywhere: no libm.
#ifndef TERN_RATE_H
#define TERN_RATE_H

#include "result.h"
#include "util/spec.h"
#include <stdint.h>

enum tern_rate_schedule {
    TERN_RATE_CONSTANT,
    TERN_RATE_COSINE,  // half a cosine wave from first, towards last in the round after the end
    TERN_RATE_STEP,    // times `decay` after every `decay_rounds`
    TERN_RATE_PLATEAU, // times `decay` when so many rounds in a row had no lower loss
};

struct tern_rate_policy {
    enum tern_rate_schedule schedule;
    float first;
    float last;             // cosine ends there; step and plateau do not go lower
    float decay;            // above 0, below 1
    uint32_t decay_rounds;  // >= 1
    uint32_t warmup_rounds; // before the schedule begins: round r of n has r / (n + 1) of `first`
};

// What follows from earlier rounds' rows.
struct tern_rate_course {
    uint32_t decays; // of the last round that opened
    uint32_t since;  // rounds committed since that number changed
};

// Spec strings (util/spec.h): "cosine:rate=0.05,warmup=10"; a number alone, "0.05", is constant:rate=0.05.
extern const struct tern_spec_list tern_rate_specs;

// Errors of tern_spec_parse(), with why; on error *policy is unchanged.
TERN_MUST_USE enum tern_result tern_rate_parse(const char *spec, struct tern_rate_policy *policy,
                                               char why[TERN_SPEC_SENTENCE_MAX]);

// Notes that a round opened with a rate decayed `decays` times, and that it was committed; now or before a restart.
void tern_rate_opened(struct tern_rate_course *course, uint32_t decays);
void tern_rate_committed(struct tern_rate_course *course);

// Returns how many times the next round's rate is decayed, after `committed` rounds. since_lowest: committed rounds since
// the lowest training loss.
uint32_t tern_rate_decays(const struct tern_rate_policy *policy,
                          const struct tern_rate_course *course, uint32_t committed,
                          uint32_t since_lowest);

// Learning rate of `round` (1..rounds), decayed so many times; rounds 0 = no end, which keeps the first
// rate of cosine.
float tern_rate_for(const struct tern_rate_policy *policy, uint32_t round, uint32_t rounds,
                    uint32_t decays);

#endif
