#include "cli/service_advice.h"

#include "cli/spending.h"
#include "codec/plan.h"
#include "hosted/log.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Most server momentum that clients bear who are one round behind (strategies/means.c).
#define MOMENTUM_OF_LAG 0.58
// Up to this, which init proposes for regression, the rounds without such clients gain from it.
#define MOMENTUM_PROPOSED 0.8

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

// What a codec's keys may be and yet are of no use as.
static void of_keys_of(const struct advice *advice, const struct tern_codec *codec,
                       const char *spec)
{
    const double bound = (double)codec->sparsity * (double)codec->clip;
    if (codec->density >= 1 && codec->fit == 0) {
        say(advice, "%s leaves no value out: p is the share of the values that is sent", spec);
    }
    if (codec->id == TERN_CODEC_3LC && bound > 0 && bound < 1) {
        say(advice,
            "%s has a scale below the mean magnitude: it sends most values, as less than they are; "
            "a clip of 4 to 4.5 is usual",
            spec);
    }
}

static void of_keys(const struct advice *advice)
{
    char up[TERN_CODEC_SPEC_MAX];
    char down[TERN_CODEC_SPEC_MAX];
    tern_codec_format(&advice->config->codec_up, up);
    tern_codec_format(&advice->config->downloads.codec, down);
    of_keys_of(advice, &advice->config->codec_up, up);
    if (strcmp(up, down) != 0) {
        of_keys_of(advice, &advice->config->downloads.codec, down);
    }
}

static void of_codecs(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const struct tern_codec *up = &advice->config->codec_up;
    const struct tern_codec *down = &advice->config->downloads.codec;
    const float momentum = advice->config->strategy_parameters[TERN_STRATEGY_SERVER_MOMENTUM];
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
        (double)momentum > MOMENTUM_PROPOSED + 1e-6) {
        say(advice,
            "fedavgm:server_momentum=%g is cut to about %g and less while clients that download by "
            "%s are behind",
            (double)momentum, MOMENTUM_OF_LAG, spec);
    }
}

static void of_rounds(const struct advice *advice)
{
    const struct tern_round_policy *round = &advice->config->round;
    if (round->fraction == 0 && round->quorum > round->cohort) {
        say(advice,
            "round.quorum = %u is more than round.cohort = %u and is taken as that: all of the "
            "cohort must be in at the deadline",
            round->quorum, round->cohort);
    }
    if (tern_spending_is_unbounded(advice->s)) {
        say(advice,
            "nothing bounds what clients spend but their own [budget]: round.rounds = 0 sets no "
            "end, and "
            "round.min_interval = %" PRIu64 "ms no pause worth the name",
            advice->s->round_min_interval);
    }
}

// The steps first change after the loss that others are held against, and an interval of others.
static void of_steps(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const struct tern_steps_settings *steps = &advice->config->steps;
    const bool adaptive = (steps->policy & TERN_STEPS_ADAPTIVE) != 0;
    if (adaptive && s->round_rounds > 0 && s->round_rounds <= steps->interval + 1) {
        say(advice,
            "adaptive:interval=%u leaves none of round.rounds = %u to adapt: each has %g times the "
            "steps of train.local_steps",
            steps->interval, s->round_rounds, steps->start);
    }
}

// The federation ends by round.patience before the rate is ever lowered.
static void of_plateaus(const struct advice *advice)
{
    const uint32_t patience = advice->config->round.ending.patience;
    const struct tern_rate_policy *rate = &advice->config->train.rate;
    if (rate->schedule == TERN_RATE_PLATEAU && patience > 0 && patience <= rate->decay_rounds) {
        say(advice,
            "plateau lowers no learning rate: round.patience = %u ends the federation before %u "
            "rounds "
            "had no lower loss",
            patience, rate->decay_rounds);
    }
}

static void of_buffers(const struct advice *advice)
{
    const struct tern_codec *up = &advice->config->codec_up;
    const enum tern_error_directive policy = advice->config->error.policy;
    const bool usual = policy == TERN_DIRECTIVE_LIMIT || policy == TERN_DIRECTIVE_KEEP;
    if (!usual && !feeds_back(up)) {
        say(advice, "codec.error_feedback = %s has no effect: %s leaves nothing in an error buffer",
            advice->s->codec_error_feedback, advice->s->codec_codec);
    }
    if (policy == TERN_DIRECTIVE_STEP_AHEAD && up->momentum > 0) {
        say(advice, "codec.error_feedback = step-ahead has no effect: %s does one as keep",
            advice->s->codec_codec);
    }
    if (policy == TERN_DIRECTIVE_KEEP && up->id == TERN_CODEC_3LC &&
        advice->config->train.rate.schedule == TERN_RATE_COSINE) {
        say(advice, "codec.error_feedback = keep: as a cosine lowers the learning rate, updates by "
                    "3lc grow to "
                    "three times their size; codec.error_feedback=limit keeps them small");
    }
    if (up->id == TERN_CODEC_SCALECOM && advice->config->strategy->takes_late) {
        say(advice,
            "round.strategy = %s takes no late updates by scalecom: the indices that they share "
            "are "
            "gone with their round",
            advice->config->strategy->name);
    }
}

// --- What has no effect

#define UNLESS(section, key, used, needed)                                                         \
    if (advice->s->section##_##key != advice->usual->section##_##key && !(used)) {                 \
        say(advice, #section "." #key " has no effect without " needed);                           \
    }

// What only another setting makes use of.
static void of_companions(const struct advice *advice)
{
    const struct tern_aggregator_settings *s = advice->s;
    const bool shares = strcmp(s->statistics_columns, "none") != 0;
    UNLESS(statistics, min_clients, shares, "statistics.columns = clients")
    UNLESS(statistics, wait, shares, "statistics.columns = clients")
    if (s->tls_client_ca[0] == '\0' &&
        strcmp(s->tls_client_certificate, advice->usual->tls_client_certificate) != 0) {
        say(advice, "tls.client_certificate has no effect without tls.client_ca: clients are asked "
                    "for no certificate");
    }
}

void tern_cli_advise(const struct tern_aggregator_settings *s,
                     const struct tern_federation_config *config, tern_cli_say report_it)
{
    static struct tern_aggregator_settings usual;
    const struct advice advice = {s, &usual, config, report_it};
    tern_settings_defaults(&tern_aggregator_settings_table, &usual);
    of_keys(&advice);
    of_codecs(&advice);
    of_rounds(&advice);
    of_steps(&advice);
    of_plateaus(&advice);
    of_buffers(&advice);
    of_companions(&advice);
}

void tern_cli_print_advice(const char *sentence)
{
    fprintf(stderr, "tern-aggregator: warning: %s\n", sentence);
}
