#include "cli/service_advice.h"

#include "cli/serve_config.h"
#include "codec/plan.h"
#include "hosted/log.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Most server momentum with which training converges when clients are one round behind (strategies/means.c).
#define LAG_MOMENTUM 0.58
// Server momentum that `init` proposes for regression, which gains from it while no client is behind.
#define PROPOSED_MOMENTUM 0.8

struct advice {
    const struct tern_aggregator_settings *s;
    const struct tern_aggregator_settings *usual;
    const struct tern_federation_config *config;
    tern_cli_advice print;
};

static void warn(const struct advice *advice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void warn(const struct advice *advice, const char *format, ...)
{
    char sentence[TERN_LOG_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    advice->print(sentence);
}

// --- Combinations that measurements advise against

// Returns whether a codec leaves an error that matters in error buffers or replicas.
static bool feeds_back(const struct tern_codec *codec)
{
    return tern_codec_entry(codec->id)->feedback != TERN_FEEDBACK_NONE &&
           tern_codec_bits(codec) < 16;
}

static void advise_on_codec_keys(const struct advice *advice, const struct tern_codec *codec,
                                 const char *spec)
{
    const double bound = (double)codec->sparsity * (double)codec->clip;
    if (codec->density >= 1 && codec->fit == 0) {
        warn(advice,
             "%s sends all values: p is the share of the values that is sent, so choose p < 1",
             spec);
    }
    if (codec->id == TERN_CODEC_3LC && bound > 0 && bound < 1) {
        warn(advice,
             "%s has a scale below the mean magnitude, so that it sends most values too small; a "
             "clip "
             "of 4 to 4.5 is usual",
             spec);
    }
}

static void advise_on_keys(const struct advice *advice)
{
    char up[TERN_CODEC_SPEC_MAX];
    char down[TERN_CODEC_SPEC_MAX];
    tern_codec_format(&advice->config->codec_up, up);
    tern_codec_format(&advice->config->downloads.codec, down);
    advise_on_codec_keys(advice, &advice->config->codec_up, up);
    if (strcmp(up, down) != 0) {
        advise_on_codec_keys(advice, &advice->config->downloads.codec, down);
    }
}

static void advise_on_codecs(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const struct tern_codec *up = &advice->config->codec_up;
    const struct tern_codec *down = &advice->config->downloads.codec;
    const float momentum = advice->config->strategy_parameters[TERN_STRATEGY_SERVER_MOMENTUM];
    const double sparsity_limit = s->train_local_steps > 1 ? 1.5 : 1.9;
    char spec[TERN_CODEC_SPEC_MAX];
    tern_codec_format(down, spec);
    if (up->momentum > 0 && s->train_momentum > 0) {
        warn(advice,
             "codec.codec = %s already has momentum, and train.momentum = %g lengthens steps "
             "again: set "
             "train.momentum = 0",
             s->codec_codec, s->train_momentum);
    }
    if (down->id == TERN_CODEC_3LC && down->clip == 0 && (double)down->sparsity >= sparsity_limit) {
        warn(advice,
             "downloads with %s lose so much that replicas fall behind the model: use "
             "codec.codec_down=default",
             spec);
    }
    if (feeds_back(down) && advice->config->strategy == &tern_strategy_fedavgm &&
        (double)momentum > PROPOSED_MOMENTUM + 1e-6) {
        warn(
            advice,
            "fedavgm:server_momentum=%g is reduced to about %g or less while clients that download "
            "with %s are behind",
            (double)momentum, LAG_MOMENTUM, spec);
    }
}

static void advise_on_rounds(const struct advice *advice)
{
    const struct tern_round_policy *round = &advice->config->round;
    if (round->fraction == 0 && round->quorum > round->cohort) {
        warn(
            advice,
            "round.quorum = %u is above round.cohort = %u and counts as %u: a round then needs the "
            "update of every client",
            round->quorum, round->cohort, round->cohort);
    }
    if (advice->s->round_rounds == 0 && tern_serve_config_interval_ms(advice->s) < TERN_PAUSE_MS) {
        warn(advice,
             "only clients' own [budget] limits what they spend: round.rounds = 0 sets no end, and "
             "round.min_interval = %" PRIu64 "ms is too short to be a limit",
             advice->s->round_min_interval);
    }
}

// The number of local steps first changes one interval after the first round, whose loss is the reference.
static void advise_on_steps(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const struct tern_steps_settings *steps = &advice->config->steps;
    const bool adaptive = (steps->policy & TERN_STEPS_ADAPTIVE) != 0;
    if (adaptive && s->round_rounds > 0 && s->round_rounds <= steps->interval + 1) {
        warn(advice,
             "adaptive:interval=%u never adapts within round.rounds = %u: every round has %g times "
             "train.local_steps",
             steps->interval, s->round_rounds, steps->start);
    }
}

// round.patience ends the federation before a plateau lowers the rate.
static void advise_on_plateaus(const struct advice *advice)
{
    const uint32_t patience = advice->config->round.ending.patience;
    const struct tern_rate_policy *rate = &advice->config->train.rate;
    if (rate->schedule == TERN_RATE_PLATEAU && patience > 0 && patience <= rate->decay_rounds) {
        warn(advice,
             "plateau never lowers the learning rate: round.patience = %u ends the federation "
             "before "
             "%u rounds had no lower loss",
             patience, rate->decay_rounds);
    }
}

static void advise_on_buffers(const struct advice *advice)
{
    const struct tern_codec *up = &advice->config->codec_up;
    const enum tern_error_directive policy = advice->config->error.policy;
    const bool usual = policy == TERN_DIRECTIVE_LIMIT || policy == TERN_DIRECTIVE_KEEP;
    if (!usual && !feeds_back(up)) {
        warn(advice, "codec.error_feedback = %s has no effect: %s leaves no residual error",
             advice->s->codec_error_feedback, advice->s->codec_codec);
    }
    if (policy == TERN_DIRECTIVE_STEP_AHEAD && up->momentum > 0) {
        warn(advice,
             "codec.error_feedback = step-ahead has no effect: with %s it does the same as keep",
             advice->s->codec_codec);
    }
    if (policy == TERN_DIRECTIVE_KEEP && up->id == TERN_CODEC_3LC &&
        advice->config->train.rate.schedule == TERN_RATE_COSINE) {
        warn(advice, "codec.error_feedback = keep: as a cosine lowers the learning rate, 3lc "
                     "updates grow to "
                     "three times their size; codec.error_feedback=limit prevents that");
    }
    if (up->id == TERN_CODEC_SCALECOM && advice->config->strategy->accepts_late_updates) {
        warn(advice,
             "round.strategy = %s cannot use late updates of scalecom, because the indices are "
             "valid "
             "in their round only",
             advice->config->strategy->name);
    }
}

// --- Settings without effect

#define UNLESS(section, key, used, needed)                                                         \
    if (advice->s->section##_##key != advice->usual->section##_##key && !(used)) {                 \
        warn(advice, #section "." #key " has no effect without " needed);                          \
    }

// Warns of a setting that has no effect because another setting is missing.
static void advise_on_unused(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const bool shares = strcmp(s->statistics_columns, "none") != 0;
    UNLESS(statistics, min_clients, shares, "statistics.columns = clients")
    UNLESS(statistics, wait, shares, "statistics.columns = clients")
    if (s->tls_client_ca[0] == '\0' &&
        strcmp(s->tls_client_certificate, advice->usual->tls_client_certificate) != 0) {
        warn(advice, "tls.client_certificate has no effect without tls.client_ca, which makes the "
                     "service ask clients for certificates");
    }
}

static void advise_on_time(const struct advice *advice, const struct tern_round_time *time)
{
    char text[TERN_ROUND_TIME_MAX];
    if (tern_round_time_is_long(time, text)) {
        warn(advice, "%s", text);
    }
}

void tern_cli_advise(const struct tern_aggregator_settings *s,
                     const struct tern_federation_config *config,
                     const struct tern_round_time *time, tern_cli_advice print)
{
    static struct tern_aggregator_settings usual;
    const struct advice advice = {s, &usual, config, print};
    tern_settings_defaults(&tern_aggregator_settings_table, &usual);
    advise_on_keys(&advice);
    advise_on_codecs(&advice);
    advise_on_rounds(&advice);
    advise_on_steps(&advice);
    advise_on_plateaus(&advice);
    advise_on_buffers(&advice);
    advise_on_unused(&advice);
    advise_on_time(&advice, time);
}

void tern_cli_print_advice(const char *sentence)
{
    fprintf(stderr, "tern-aggregator: warning: %s\n", sentence);
}
