// The strategy of a round, between its row in the store and what strategies/ works with. Numbers
// are written so that reading them back gives the same bits. Any thread.
#ifndef TERN_STRATEGY_RULE_H
#define TERN_STRATEGY_RULE_H

#include "store/store.h"
#include "strategies/strategy.h"

// What the round merges by.
// TERN_ERR_UNKNOWN  the row names a strategy or a parameter that is not known, or one is missing
TERN_MUST_USE enum tern_result tern_rule_read(const struct tern_db_round *row,
                                              struct tern_strategy_rule *rule);

// Sets the row's strategy, strategy_parameters and server_learning_rate; parameters that the
// strategy does not use are left out. rule->learning_rate is the row's own, which is not touched.
void tern_rule_write(const struct tern_strategy_rule *rule, struct tern_db_round *row);

#endif
