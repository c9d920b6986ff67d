// The policies of steps.h, one file each, and policy.c with what they share. steps.c knows them
// all; none knows it or another. Only these files include this.
#ifndef TERN_POLICIES_H
#define TERN_POLICIES_H

#include "rounds/steps.h"

// The whole number nearest below within [min_steps, max_steps]; the reason names a bound that
// holds.
uint32_t tern_policy_bound(const struct tern_steps_settings *settings, double steps,
                           struct tern_reason *reason);

// Set plan->local_steps and append their reason.
void tern_policy_adaptive(const struct tern_steps_settings *settings,
                          const struct tern_steps_course *course, struct tern_steps_plan *plan);
// Return the most steps that fit into the window; UINT32_MAX = not known. only: H is that many,
// else at most.
uint32_t tern_policy_deadline(const struct tern_steps_settings *settings,
                              const struct tern_steps_facts *facts, bool only,
                              struct tern_steps_plan *plan);
// most: from the deadline.
void tern_policy_budget(const struct tern_steps_settings *settings,
                        const struct tern_steps_facts *facts, uint32_t most,
                        struct tern_steps_plan *plan);

// H of the first rounds.
uint32_t tern_adaptive_start(const struct tern_steps_settings *settings);
// An interval has ended with this mean loss.
void tern_adaptive_interval(struct tern_steps_course *course,
                            const struct tern_steps_settings *settings, double loss);

#endif
