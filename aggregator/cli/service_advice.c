#include "cli/service_advice.h"

#include "codec/plan.h"
#include "hosted/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Most server momentum that clients bear who are one round behind (strategies/means.c).
#define MOMENTUM_OF_LAG 0.58

struct advice {
    const struct tern_aggregator_settings *s;
    const struct tern_aggregator_settings *usual;
    const struct tern_federation_config *config;
    tern_cli_say say;
};

static void say(const struct advice *advice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct advice *advice, const char *format, ...)
{
    char sentence[TERN_LOG_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    advice->say(sentence);
}

// --- What was measured

// Whether it leaves something for an error buffer, or in a replica, that counts.
static bool feeds_back(const struct tern_codec *codec)
{
    return tern_codec_entry(codec->id)->feedback != TERN_FEEDBACK_NONE &&
           tern_codec_bits(codec) < 16;
}

static void of_codecs(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const struct tern_codec *up = &advice->config->codec_up;
    const struct tern_codec *down = &advice->config->downloads.codec;
    const double followed = s->train_local_steps > 1 ? 1.5 : 1.9;
    char spec[TERN_CODEC_SPEC_MAX];
    tern_codec_format(down, spec);
    if (up->momentum > 0 && s->train_momentum > 0) {
        say(advice,
            "codec.codec = %s has momentum already: with train.momentum = %g steps are that much "
            "longer again",
            s->codec_codec, s->train_momentum);
    }
    if (down->id == TERN_CODEC_3LC && down->clip == 0 && (double)down->sparsity >= followed) {
        say(advice,
            "downloads by %s lose so much that replicas do not follow the model; "
            "codec.codec_down=default does not",
            spec);
    }
    if (feeds_back(down) && advice->config->strategy == &tern_strategy_fedavgm &&
        s->strategy_server_momentum > MOMENTUM_OF_LAG) {
        say(advice,
            "strategy.server_momentum = %g is cut to about %g and less while clients that download "
            "by %s "
            "are behind",
            s->strategy_server_momentum, MOMENTUM_OF_LAG, spec);
    }
}

static void of_buffers(const struct advice *advice)
{
    const struct tern_codec *up = &advice->config->codec_up;
    const enum tern_error_directive policy = advice->config->error.policy;
    const bool usual = policy == TERN_DIRECTIVE_LIMIT || policy == TERN_DIRECTIVE_KEEP;
    if (!usual && !feeds_back(up)) {
        say(advice,
            "error_feedback.policy = %s has no effect: %s leaves nothing in an error buffer",
            advice->s->error_feedback_policy, advice->s->codec_codec);
    }
    if (policy == TERN_DIRECTIVE_STEP_AHEAD && up->momentum > 0) {
        say(advice, "error_feedback.policy = step-ahead has no effect: %s does one as keep",
            advice->s->codec_codec);
    }
    if (policy == TERN_DIRECTIVE_KEEP && up->id == TERN_CODEC_3LC &&
        advice->config->train.schedule == TERN_RATE_COSINE) {
        say(advice,
            "error_feedback.policy = keep: as train.schedule = cosine lowers the learning rate, "
            "updates by 3lc grow to three times their size; error_feedback.policy=limit keeps "
            "them small");
    }
    if (up->id == TERN_CODEC_SCALECOM && advice->config->strategy->takes_late) {
        say(advice,
            "strategy.name = %s takes no late updates by scalecom: the indices that they share are "
            "gone with their round",
            advice->s->strategy_name);
    }
}

// --- What has no effect

#define UNLESS(section, key, used, needed)                                                         \
    if (advice->s->section##_##key != advice->usual->section##_##key && !(used)) {                 \
        say(advice, #section "." #key " has no effect without " needed);                           \
    }

static void of_policies(const struct advice *advice)
{
    const enum tern_error_directive error = advice->config->error.policy;
    const unsigned steps = advice->config->steps.policy;
    const unsigned adaptive = TERN_STEPS_ADAPTIVE;
    const unsigned variance = TERN_STEPS_VARIANCE;
    UNLESS(train, learning_rate_final, advice->config->train.schedule == TERN_RATE_COSINE,
           "train.schedule = cosine")
    UNLESS(error_feedback, limit, error == TERN_DIRECTIVE_LIMIT, "error_feedback.policy = limit")
    UNLESS(error_feedback, gamma, error == TERN_DIRECTIVE_DECAY, "error_feedback.policy = decay")
    UNLESS(error_feedback, after, error == TERN_DIRECTIVE_DECAY || error == TERN_DIRECTIVE_RESET,
           "error_feedback.policy = decay or reset")
    UNLESS(error_feedback, step_ahead, error == TERN_DIRECTIVE_STEP_AHEAD,
           "error_feedback.policy = step-ahead")
    UNLESS(schedule, fraction, (steps & TERN_STEPS_DEADLINE) != 0, "schedule.policy = deadline")
    UNLESS(schedule, interval, (steps & (adaptive | variance)) != 0,
           "schedule.policy = adaptive or variance")
    UNLESS(schedule, gamma, (steps & adaptive) != 0, "schedule.policy = adaptive")
    UNLESS(schedule, theta, (steps & variance) != 0, "schedule.policy = variance")
    UNLESS(schedule, min_density, (steps & TERN_STEPS_BUDGET) != 0, "schedule.policy = budget")
}

static void say_unused(const struct advice *advice, const char *section, const char *key)
{
    if (strcmp(section, "strategy") == 0) { // train.momentum is the clients', too
        say(advice, "strategy.%s has no effect under strategy.name = %s", key,
            advice->s->strategy_name);
    }
}

static void of_strategies(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const struct tern_aggregator_settings *usual = advice->usual;
    const uint32_t used = advice->config->strategy->parameters;
#define UNUSED(symbol, differs, section, key)                                                      \
    if ((used >> TERN_STRATEGY_##symbol & 1) == 0 && (differs)) {                                  \
        say_unused(advice, #section, #key);                                                        \
    }
#define NUMBER(symbol, name, least, most, or_zero, section, key)                                   \
    UNUSED(symbol, s->section##_##key != usual->section##_##key, section, key)
#define YES_NO(symbol, name, section, key)                                                         \
    UNUSED(symbol, s->section##_##key != usual->section##_##key, section, key)
    TERN_STRATEGY_PARAMETER_LIST(NUMBER, YES_NO)
}

void tern_cli_advise(const struct tern_aggregator_settings *s,
                     const struct tern_federation_config *config, tern_cli_say say_it)
{
    static struct tern_aggregator_settings usual;
    const struct advice advice = {s, &usual, config, say_it};
    tern_settings_defaults(&tern_aggregator_settings_table, &usual);
    of_codecs(&advice);
    of_buffers(&advice);
    of_policies(&advice);
    of_strategies(&advice);
}

void tern_cli_print_advice(const char *sentence)
{
    fprintf(stderr, "tern-aggregator: warning: %s\n", sentence);
}
