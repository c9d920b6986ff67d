// Checks the configured strategy against the other settings (tern_federation_check_config()), and computes how large a
// cohort the strategy can merge. The results depend on settings only. round.c calls these functions when a round opens.
// Any thread.
#ifndef TERN_FEDERATION_STRATEGY_H
#define TERN_FEDERATION_STRATEGY_H

#include "federation/federation.h"

// Returns the largest cohort whose updates of `count` values the strategy can merge in its memory.
uint32_t tern_strategy_largest_cohort(const struct tern_federation_config *config, uint32_t count);
// Sets *rule to the configured strategy and its parameters. Parameters that the strategy does not use are 0.
void tern_strategy_configured_rule(const struct tern_federation_config *config, float learning_rate,
                                   struct tern_strategy_rule *rule);

#endif
