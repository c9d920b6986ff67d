#include "federation/strategy.h"

#include "rounds/selection.h"
#include "strategies/bounds.h"
#include <math.h>
#include <stdio.h>

// A round may be decoded at most this many times when it closes, which bounds the time of the merge.
#define PASSES_MAX 16

// The strategy may use 1/MEMORY_SHARE of limits.memory (cli/settings.h).
#define MEMORY_SHARE 8

void tern_strategy_configured_rule(const struct tern_federation_config *config, float learning_rate,
                                   struct tern_strategy_rule *rule)
{
    *rule = (struct tern_strategy_rule){.strategy = config->strategy,
                                        .server_learning_rate = config->server_learning_rate,
                                        .learning_rate = learning_rate};
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        bool used = (config->strategy->parameters >> i & 1) != 0;
        rule->parameters[i] = used ? config->strategy_parameters[i] : 0.0F;
    }
    if ((config->strategy->parameters >> TERN_STRATEGY_LOCAL_MOMENTUM & 1) != 0) {
        rule->parameters[TERN_STRATEGY_LOCAL_MOMENTUM] = config->train.momentum;
    }
}

static bool loses_nothing(const struct tern_codec *codec)
{
    return codec->id == TERN_CODEC_FLOAT32;
}

// Whether the codec's decoded values are right in the mean. INCEPTIONN bounds its error, but is biased towards zero.
static bool is_right_on_average(const struct tern_codec *codec)
{
    const bool unbiased = tern_codec_entry(codec->id)->feedback == TERN_FEEDBACK_NONE &&
                          codec->id != TERN_CODEC_INCEPTIONN;
    return unbiased || loses_nothing(codec);
}

static bool check_epochs(const struct tern_federation_config *config, char why[256])
{
    const struct tern_training_settings *train = &config->train;
    const char *name = config->strategy->name;
    char spec[TERN_CODEC_SPEC_MAX];
    if (!config->strategy->has_epochs) {
        return true;
    }
    if (config->steps.policy != TERN_STEPS_FIXED || config->steps.local_steps != 1) {
        snprintf(why, 256,
                 "strategy %s needs updates of a single step; set train.local_steps = 1 and "
                 "train.schedule = fixed",
                 name);
    } else if (train->momentum > 0.0F) {
        snprintf(why, 256,
                 "strategy %s trains single steps, so momentum has no use; set "
                 "train.momentum = 0",
                 name);
    } else if (train->rate.schedule != TERN_RATE_CONSTANT || train->rate.warmup_rounds > 0) {
        snprintf(why, 256,
                 "strategy %s needs a constant learning rate; set train.learning_rate to a number "
                 "alone",
                 name);
    } else if (!loses_nothing(&config->downloads.codec)) {
        tern_codec_format(&config->downloads.codec, spec);
        snprintf(why, 256,
                 "strategy %s needs lossless downloads, and codec.codec_down is %.64s; set "
                 "codec.codec_down = float32",
                 name, spec);
    } else if (!is_right_on_average(&config->codec_up)) {
        tern_codec_format(&config->codec_up, spec);
        snprintf(why, 256,
                 "strategy %s needs an unbiased codec without an error buffer, and codec.codec is "
                 "%.64s; set codec.codec = default, another qsgd, or float32",
                 name, spec);
    } else {
        return true;
    }
    return false;
}

// Checks that every update that the limits allow can be merged without overflow (strategies/bounds.h).
static bool check_bounds(const struct tern_federation_config *config, char why[256])
{
    struct tern_strategy_rule rule;
    double norm = config->limits.norm;
    double rate = (double)config->server_learning_rate;
    tern_strategy_configured_rule(config, config->train.rate.first, &rule);
    double most = tern_strategy_norm_max(&rule);
    if (!(norm > 0.0 && norm <= TERN_UPDATE_NORM_MAX && rate > 0.0 &&
          rate <= TERN_SERVER_RATE_MAX)) {
        snprintf(why, 256,
                 "limits.norm = %g or the server learning rate = %g is out of range; they must be "
                 "above 0, and at most %g and %g",
                 norm, rate, (double)TERN_UPDATE_NORM_MAX, (double)TERN_SERVER_RATE_MAX);
    } else if (norm > most) {
        snprintf(why, 256,
                 "limits.norm = %g is above %g, the largest norm that strategy %s can merge with "
                 "its parameters; set limits.norm = %g",
                 norm, most, config->strategy->name, most);
    } else {
        return true;
    }
    return false;
}

static bool check_parameters(const struct tern_federation_config *config, char why[256])
{
    struct tern_strategy_rule rule;
    tern_strategy_configured_rule(config, config->train.rate.first, &rule);
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        const struct tern_strategy_parameter_entry *entry = &tern_strategy_parameter_table[i];
        float value = rule.parameters[i];
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

// Returns for how many updates the strategy's scratch memory fits into the memory limit.
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

uint32_t tern_strategy_largest_cohort(const struct tern_federation_config *config, uint32_t count)
{
    uint32_t passes = config->strategy->passes;
    if (passes == 0) {
        return UINT32_MAX;
    }
    double decoded = memory_of(config) * PASSES_MAX / ((double)count * 4.0 * passes);
    double kept = updates_kept(config);
    return (uint32_t)((decoded < kept ? decoded : kept) / (1.0 + config->round.over_selection));
}

// Checks the memory of a strategy that combines the values of all updates, such as a median.
static bool check_memory(const struct tern_federation_config *config, uint32_t count, char why[256])
{
    const struct tern_round_policy *round = &config->round;
    uint32_t updates = tern_cohort_size(round->cohort, round->over_selection, UINT32_MAX);
    double memory = memory_of(config);
    double needed = (double)updates * (double)count * 4.0 * config->strategy->passes;
    if (config->strategy->passes > 0 && updates > updates_kept(config)) {
        snprintf(
            why, 256,
            "strategy %s needs %.0f bytes for %u updates; set limits.memory = %.0f or more, or a "
            "smaller round.cohort",
            config->strategy->name, (double)config->strategy->scratch(updates), updates,
            (double)MEMORY_SHARE * (double)config->strategy->scratch(updates));
        return false;
    }
    if (needed <= memory * PASSES_MAX) {
        return true;
    }
    snprintf(why, 256,
             "%s of %u updates of %u values would decode them more than %d times with "
             "%.0f bytes of memory; set limits.memory = %.0f or a smaller round.cohort",
             config->strategy->name, updates, count, PASSES_MAX, memory,
             MEMORY_SHARE * ceil(needed / PASSES_MAX));
    return false;
}

// Checks that the strategy can merge each number of updates with which a round can close.
static bool check_updates(const struct tern_federation_config *config, char why[256])
{
    const struct tern_round_policy *round = &config->round;
    const uint32_t most = tern_cohort_size(round->cohort, round->over_selection, UINT32_MAX);
    struct tern_strategy_rule rule;
    tern_strategy_configured_rule(config, config->train.rate.first, &rule);
    for (uint32_t updates = tern_round_quorum(round); updates <= most; updates++) {
        if (!tern_strategy_has_enough_updates(&rule, updates)) {
            snprintf(
                why, 256,
                "round.strategy = %s:attackers=%g needs %u updates where a round can close with %u "
                "(round.quorum = %u); set fewer attackers, or a larger round.quorum and "
                "round.cohort",
                config->strategy->name, (double)rule.parameters[TERN_STRATEGY_ATTACKERS],
                config->strategy->least_updates(&rule, updates), updates, tern_round_quorum(round));
            return false;
        }
    }
    return true;
}

// Returns the reason why a strategy that needs single updates, or a number of clients, excludes secure rounds; NULL: none.
// text: memory for the reason.
static const char *obstacle_of_rounds(const struct tern_federation_config *config, char text[192])
{
    const struct tern_strategy *strategy = config->strategy;
    const struct tern_round_policy *round = &config->round;
    const uint32_t least = tern_secure_updates(&config->secure);
    const bool is_cohort = round->cohort < least;
    if (is_cohort || tern_round_quorum(round) < least) {
        snprintf(text, 192,
                 "%s = %u is below secure.min_clients = %u times secure.groups = %u; raise %s",
                 is_cohort ? "round.cohort" : "round.quorum",
                 is_cohort ? round->cohort : tern_round_quorum(round), config->secure.min_clients,
                 least / config->secure.min_clients, is_cohort ? "round.cohort" : "round.quorum");
        return text;
    }
    if (strategy->passes > 0 || strategy->accepts_late_updates || strategy->has_epochs) {
        snprintf(text, 192,
                 "round.strategy = %s looks at single updates, and secure rounds show only their "
                 "sum; choose fedavg, fedprox, fedavgm or another mean",
                 strategy->name);
        return text;
    }
    return NULL;
}

static const char *obstacle_of_secure_rounds(const struct tern_federation_config *config)
{
    const struct tern_strategy *strategy = config->strategy;
    if ((strategy->parameters >> TERN_STRATEGY_NORM_BOUND & 1) != 0 &&
        config->strategy_parameters[TERN_STRATEGY_NORM_BOUND] > 0.0F) {
        return "norm_bound of round.strategy needs the norms of single updates; set "
               "norm_bound=0, as in fedavg:norm_bound=0";
    }
    if (tern_codec_entry(config->codec_up.id)->follows_leader) {
        return "codec.codec shares indices of one client's update; choose another codec";
    }
    if (config->downloads.plan != TERN_DOWNLOADS_TRUNK) {
        return "all clients of a secure round train from one replica; set downloads.plan = trunk";
    }
    if (config->steps.policy != TERN_STEPS_FIXED) {
        return "all clients of a secure round train equally long; set train.schedule = fixed";
    }
    if (config->error.policy != TERN_DIRECTIVE_KEEP) {
        return "all clients of a secure round keep their error buffers; set "
               "codec.error_feedback = keep";
    }
    if (config->statistics.enabled) {
        return "statistics of columns show single clients; set statistics.columns = none";
    }
    if (config->train.evaluate) {
        return "evaluations show single clients; set train.evaluate = no";
    }
    return config->upstream_client != 0 ? "a gateway has no secure rounds" : NULL;
}

// With noise, clients report neither examples nor losses, on which there would be none.
static const char *obstacle_of_noise(const struct tern_federation_config *config)
{
    if (config->secure.noise == 0) {
        return NULL;
    }
    if (config->secure.examples_max != 0) {
        return "weights by examples show how many examples there are; set secure.examples_max = 0";
    }
    if (config->round.ending.patience != 0) {
        return "nobody reports the training loss; set round.patience = 0";
    }
    return config->train.rate.schedule == TERN_RATE_PLATEAU
               ? "nobody reports the training loss; set another train.learning_rate than plateau"
               : NULL;
}

// Returns the bits of a value in the largest round; 0: they are too many.
static uint32_t bits_of_round(const struct tern_federation_config *config, uint32_t cohort,
                              uint32_t values)
{
    const struct tern_secure_settings *settings = &config->secure;
    const struct tern_secure_round round = {
        .cohort = cohort,
        .groups = settings->groups,
        .level = 1,
        .noise = settings->noise,
        .places_max = settings->noise > 0 ? tern_secure_places(settings, values) : 0,
        .scale_count = TERN_MASKED_TENSORS_MAX,
    };
    return settings->noise > 0 && tern_secure_variance(&round) == 0 ? 0 : tern_secure_bits(&round);
}

static bool check_secure(const struct tern_federation_config *config, uint32_t count, char why[256])
{
    const uint32_t most = tern_cohort_size(config->round.cohort, 0.0, UINT32_MAX);
    char text[192];
    const char *obstacle = config->secure.enabled ? obstacle_of_rounds(config, text) : NULL;
    if (config->secure.enabled && obstacle == NULL) {
        obstacle = obstacle_of_secure_rounds(config);
    }
    if (obstacle != NULL) {
        snprintf(why, 256, "secure.helper is set, but %s, or leave secure.helper empty", obstacle);
        return false;
    }
    const char *of_noise = config->secure.enabled ? obstacle_of_noise(config) : NULL;
    if (of_noise != NULL) {
        snprintf(why, 256, "privacy.noise is set, but %s, or privacy.noise = 0", of_noise);
        return false;
    }
    if (config->secure.enabled && bits_of_round(config, most, count) == 0) {
        snprintf(why, 256,
                 "round.cohort = %u or privacy.noise = %g with privacy.clip = %g is too large for "
                 "secure rounds; lower it",
                 most, config->secure.noise / 1000.0, config->secure.clip);
        return false;
    }
    return true;
}

enum tern_result tern_federation_check_config(const struct tern_federation_config *config,
                                              uint32_t count, char why[256])
{
    const bool fits = check_bounds(config, why) && check_parameters(config, why) &&
                      check_memory(config, count, why) && check_updates(config, why) &&
                      check_epochs(config, why) && check_secure(config, count, why);
    return fits ? TERN_OK : TERN_ERR_CONFIG;
}
