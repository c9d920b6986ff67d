// The configured strategy: whether it can work here, and what a round that opens takes from it.
#include "federation/internal.h"

#include "merge/strategy_rule.h"
#include "rounds/cohort.h"
#include "strategies/bounds.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// Updates are decoded this often at most when a round closes, so that it does not take too long.
#define PASSES_MAX 16

static void rule_of_config(const struct tern_federation_config *config, float learning_rate,
                           struct tern_strategy_rule *rule)
{
    *rule = (struct tern_strategy_rule){.strategy = config->strategy,
                                        .server_learning_rate = config->server_learning_rate,
                                        .learning_rate = learning_rate};
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        bool used = (config->strategy->parameters >> i & 1) != 0;
        rule->parameters[i] = used ? config->strategy_parameters[i] : 0.0F;
    }
}

// --- At the start

// The bounds that every accepted update keeps must hold whatever the configuration says.
static bool check_bounds(const struct tern_federation_config *config, char why[256])
{
    struct tern_strategy_rule rule;
    double norm = config->limits.norm;
    double rate = (double)config->server_learning_rate;
    rule_of_config(config, config->train.rate.first, &rule);
    double most = tern_strategy_norm_max(&rule);
    if (!(norm > 0.0 && norm <= TERN_UPDATE_NORM_MAX && rate > 0.0 &&
          rate <= TERN_SERVER_RATE_MAX)) {
        snprintf(why, 256, "the norm limit or the server learning rate is out of its range");
    } else if (norm > most) {
        snprintf(why, 256,
                 "limits.norm = %g is above %g, the most that %s can merge with its momenta", norm,
                 most, config->strategy->name);
    } else {
        return true;
    }
    return false;
}

static bool check_parameters(const struct tern_federation_config *config, char why[256])
{
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        const struct tern_strategy_parameter_entry *entry = &tern_strategy_parameter_table[i];
        float value = config->strategy_parameters[i];
        bool used = (config->strategy->parameters >> i & 1) != 0;
        if (used && !tern_strategy_parameter_fits((enum tern_strategy_parameter)i, value)) {
            snprintf(why, 256, "%s of %s is %g; it %sgoes from %g to %g", entry->name,
                     config->strategy->name, (double)value, entry->or_zero ? "is 0 or " : "",
                     entry->least, entry->most);
            return false;
        }
    }
    return true;
}

static double memory_of(const struct tern_federation_config *config)
{
    return (double)(config->strategy_memory != 0 ? config->strategy_memory : TERN_MERGE_MEMORY);
}

// How many updates what the strategy keeps of them leaves room for.
static uint32_t updates_kept(const struct tern_federation_config *config)
{
    uint32_t fits = 1;
    uint32_t beyond = TERN_EXACT_TERMS_MAX;
    while (beyond - fits > 1) {
        const uint32_t middle = fits + (beyond - fits) / 2;
        const bool kept = (double)config->strategy->scratch(middle) <= memory_of(config);
        fits = kept ? middle : fits;
        beyond = kept ? beyond : middle;
    }
    return fits;
}

uint32_t tern_strategy_cohort_max(const struct tern_federation_config *config, uint32_t count)
{
    uint32_t passes = config->strategy->passes;
    if (passes == 0) {
        return UINT32_MAX;
    }
    double decoded = memory_of(config) * PASSES_MAX / ((double)count * 4.0 * passes);
    double kept = updates_kept(config);
    return (uint32_t)((decoded < kept ? decoded : kept) / (1.0 + config->round.over_selection));
}

// Of strategies that combine the values of all updates.
static bool check_memory(const struct tern_federation_config *config, uint32_t count, char why[256])
{
    const struct tern_round_policy *round = &config->round;
    uint32_t updates = tern_cohort_size(round->cohort, round->over_selection, UINT32_MAX);
    double memory = memory_of(config);
    double needed = (double)updates * (double)count * 4.0 * config->strategy->passes;
    if (config->strategy->passes > 0 && updates > updates_kept(config)) {
        snprintf(why, 256,
                 "%s keeps %.0f bytes of %u updates; set strategy.memory to that or more, or a "
                 "smaller round.cohort",
                 config->strategy->name, (double)config->strategy->scratch(updates), updates);
        return false;
    }
    if (needed <= memory * PASSES_MAX) {
        return true;
    }
    snprintf(why, 256,
             "%s of %u updates of %u values would decode them more than %d times with "
             "strategy.memory = %.0f; set strategy.memory = %.0f or a smaller round.cohort",
             config->strategy->name, updates, count, PASSES_MAX, memory, ceil(needed / PASSES_MAX));
    return false;
}

// Of every number of updates that a round may close with.
static bool check_updates(const struct tern_federation_config *config, char why[256])
{
    const struct tern_round_policy *round = &config->round;
    const uint32_t most = tern_cohort_size(round->cohort, round->over_selection, UINT32_MAX);
    struct tern_strategy_rule rule;
    rule_of_config(config, config->train.rate.first, &rule);
    for (uint32_t updates = tern_round_quorum(round); updates <= most; updates++) {
        if (!tern_strategy_suffices(&rule, updates)) {
            snprintf(why, 256,
                     "%s with strategy.attackers = %g needs %u updates where a round has %u, as "
                     "it may with round.quorum = %u; set a smaller strategy.attackers, or a larger "
                     "round.quorum and round.cohort",
                     config->strategy->name, (double)rule.parameters[TERN_STRATEGY_ATTACKERS],
                     config->strategy->least_updates(&rule, updates), updates,
                     tern_round_quorum(round));
            return false;
        }
    }
    return true;
}

bool tern_strategy_check_config(const struct tern_federation_config *config, uint32_t count,
                                char why[256])
{
    return check_bounds(config, why) && check_parameters(config, why) &&
           check_memory(config, count, why) && check_updates(config, why) &&
           tern_epoch_check_config(config, why);
}

// --- When a round closes

// Fewer than the quorum where there are no more clients, or the operator ends it.
void tern_strategy_note_few(const struct tern_federation *federation)
{
    const struct tern_strategy_totals *totals = &federation->totals;
    const struct tern_strategy *strategy = totals->rule.strategy;
    if (!tern_strategy_suffices(&totals->rule, totals->updates)) {
        tern_log(TERN_LOG_WARN, "too-few-for-strategy",
                 "round=%u strategy=%s updates=%u needed=%u attackers=%g", federation->row.round,
                 strategy->name, totals->updates,
                 strategy->least_updates(&totals->rule, totals->updates),
                 (double)totals->rule.parameters[TERN_STRATEGY_ATTACKERS]);
    }
}

// --- When a round opens

static bool carries(const struct tern_strategy *strategy)
{
    return strategy != NULL && strategy->states[0].name != NULL;
}

void tern_strategy_open(struct tern_federation *federation, const char *previous)
{
    struct tern_strategy_rule rule;
    rule_of_config(&federation->config, federation->row.learning_rate, &rule);
    if (federation->epoch.is_on) {
        rule.parameters[TERN_STRATEGY_EPOCH_STEPS] = (float)federation->epoch.steps;
        rule.parameters[TERN_STRATEGY_EPOCH_STEP] = (float)federation->epoch.step;
    }
    tern_rule_write(&rule, &federation->row);
    tern_strategy_count_none(&federation->totals, &rule);
    tern_merge_open(&federation->merge, &rule);
    federation->machine.buffers = rule.strategy->takes_late;
    bool changed = previous[0] != '\0' && strcmp(previous, rule.strategy->name) != 0;
    if (changed) {
        bool states = carries(rule.strategy) || carries(tern_strategy_find(previous));
        tern_log(TERN_LOG_WARN, "strategy-changed", "round=%u from=%s to=%s%s",
                 federation->row.round, previous, rule.strategy->name,
                 states ? " state=starts-anew" : "");
    }
}
