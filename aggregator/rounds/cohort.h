// Draws the clients of a round. Who calls: the round machine and the service. Pure; reentrant.
#ifndef TERN_COHORT_H
#define TERN_COHORT_H

#include <stdint.h>

// How many updates are wanted of that many clients: the larger of cohort and ceil(fraction *
// eligible) (C of McMahan et al., AISTATS 2017, algorithm 1). fraction: 0..1.
uint32_t tern_cohort_target(uint32_t cohort, double fraction, uint32_t eligible);

// How many clients to ask for `target` updates: ceil(target * (1 + over_selection)), at most
// `eligible`. over_selection: 0..10.
uint32_t tern_cohort_size(uint32_t target, double over_selection, uint32_t eligible);

// Moves `want` ids drawn without replacement from ids[0..count) to its front, in ascending order.
// ids are ascending on entry, so that the draw depends on the set alone; the rest of ids is in no
// order afterwards. want <= count. The draw is named by (seed, round, attempt).
void tern_cohort_sample(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                        uint32_t count, uint32_t want);

#endif
