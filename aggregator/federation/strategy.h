// The configured strategy: whether it fits the other settings, and how large a cohort it can merge. Settings alone decide,
// never a federation's state. federation.c calls it before it accepts a configuration, round.c when a round opens. Any
// thread.
#ifndef TERN_FEDERATION_STRATEGY_H
#define TERN_FEDERATION_STRATEGY_H

#include "federation/federation.h"

// Whether the strategy can merge what the limits let in, for a model of `count` values.
bool tern_strategy_check_config(const struct tern_federation_config *config, uint32_t count,
                                char why[256]);
// The largest cohort whose updates of `count` values the strategy can merge in its memory.
uint32_t tern_strategy_cohort_max(const struct tern_federation_config *config, uint32_t count);
// The configured strategy with its parameters; those that it does not use are 0.
void tern_strategy_rule_of(const struct tern_federation_config *config, float learning_rate,
                           struct tern_strategy_rule *rule);

#endif
