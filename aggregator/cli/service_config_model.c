// What of the settings depends on the model: [codec], and how near downloads lead.
#include "cli/service_config.h"
#include "codec/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// A model of fewer values than `below` takes these. Messages cost what they cost, and a small model
// learns little from a few values a round, so the fewer values it has, the larger the share that is
// sent (docs/BENCHMARKS.md, "How the defaults are decided").
static const struct usual {
    uint32_t below;
    const char *up;
    const char *down;
    double residual;
    uint32_t early; // most first rounds with finer codecs in federations of more than ALL_EARLY
} usual[] = {
    {10000, "3lc:s=1,clip=4,coder=range", "density:p=0.5,least=64,fit=yes,coder=range", 1.0, 45},
    {75000, "3lc:s=1,clip=4,coder=range", "density:p=0.1,least=64,coder=range", 1.0, 15},
    {UINT32_MAX, "3lc:s=1,clip=4.5,coder=range", "density:p=0.07,least=64,coder=range", 1.5, 15},
};

// codec.accuracy. A federation of few rounds learns from few updates, and what their codecs lose does not average out.
// docs/BENCHMARKS.md, "How the defaults are decided", has the figures behind these numbers of rounds.
enum { FEW_ROUNDS = 8, ALL_EARLY = 45, NONE_EARLY = 90, ENDLESS_EARLY = 20 };

#define CAREFUL "uniform:error=0.02"

static const struct accuracy {
    const char *name;
    const char *codec; // both ways; NULL: those of usual[], in all rounds
    const char *few;   // in place of codec in federations of at most FEW_ROUNDS
    bool always;       // false: in early rounds only
} accuracies[] = {
    {.name = "thrifty"},
    {.name = "balanced", .codec = "uniform:error=0.05", .few = CAREFUL},
    {.name = "careful", .codec = CAREFUL, .always = true},
};

const char *tern_cli_accuracy(size_t i)
{
    return i < sizeof accuracies / sizeof accuracies[0] ? accuracies[i].name : NULL;
}

static const struct accuracy *accuracy_of(const char *name)
{
    for (size_t i = 0; i < sizeof accuracies / sizeof accuracies[0]; i++) {
        if (strcmp(name, accuracies[i].name) == 0) {
            return &accuracies[i];
        }
    }
    return NULL;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Returns how many first rounds of a balanced federation have finer codecs. rounds: all of them, 0 = without end.
static uint32_t early_rounds(const struct usual *row, uint32_t rounds)
{
    if (rounds == 0) {
        return ENDLESS_EARLY;
    }
    if (rounds <= ALL_EARLY) {
        return rounds;
    }
    return rounds < NONE_EARLY ? smaller(NONE_EARLY - rounds, row->early) : 0;
}

static const char *early_codec(const struct accuracy *accuracy, uint32_t rounds)
{
    return rounds > 0 && rounds <= FEW_ROUNDS ? accuracy->few : accuracy->codec;
}

static const struct usual *usual_of(uint32_t values)
{
    const struct usual *row = usual;
    while (values >= row->below) {
        row++;
    }
    return row;
}

// One scale for all values, and as many levels as the root of their number: QSGD's dense regime, by which the
// theorem on qsvrg reckons.
static void write_dense(uint32_t values, char spec[TERN_CODEC_SPEC_MAX])
{
    const uint32_t most = 32767;
    const double root = sqrt((double)values);
    const uint32_t levels = root < most ? (uint32_t)(root + 0.5) : most;
    snprintf(spec, TERN_CODEC_SPEC_MAX, "qsgd:levels=%u,bucket=268435456,norm=l2,coder=elias",
             levels > 0 ? levels : 1);
}

static int parse_codec(struct tern_cli *cli, const char *key, const char *spec,
                       struct tern_codec *codec)
{
    struct tern_spec_refusal refusal;
    char sentence[TERN_SPEC_SENTENCE_MAX];
    if (tern_codec_parse(spec, codec, &refusal) == TERN_OK) {
        return TERN_EXIT_OK;
    }
    tern_spec_explain(&refusal, sentence);
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s = %s: %s", key, spec, sentence);
}

// Why a codec of this feedback may not encode downloads (with the parameters it has).
static const char *why_not_down(enum tern_feedback feedback)
{
    switch (feedback) {
    case TERN_FEEDBACK_MOMENTUM:
        return "it needs a client's velocity";
    case TERN_FEEDBACK_FILTERED:
        return "it needs a round's clients, of which one chooses for all";
    case TERN_FEEDBACK_NONE:
    case TERN_FEEDBACK_ERROR:
        break;
    }
    return "what it loses is fed back to the replica, and would grow from one download to the next";
}

static int check_codec_down(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            const struct tern_codec *codec)
{
    const char *set = s->codec_codec_down;
    const struct tern_codec_entry *entry = tern_codec_entry(codec->id);
    const char *why = why_not_down(entry->feedback);
    if (tern_codec_downloads(codec)) {
        return TERN_EXIT_OK;
    }
    if (set[0] != '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "codec.codec_down = %s: %s cannot encode downloads: %s", set,
                             entry->name, why);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "codec.codec = %s is the codec of updates alone: %s cannot encode "
                         "downloads: %s. Set codec.codec_down as well, e.g. "
                         "codec.codec_down=default",
                         s->codec_codec, entry->name, why);
}

// Whether the codecs of updates and of downloads are default ones.
struct defaults {
    bool up;
    bool down;
};

static struct defaults defaults_of(const struct tern_aggregator_settings *s,
                                   const struct tern_federation_config *config)
{
    const bool up = strcmp(s->codec_codec, "default") == 0;
    const bool down = s->codec_codec_down[0] == '\0' ? up || config->strategy->has_epochs
                                                     : strcmp(s->codec_codec_down, "default") == 0;
    return (struct defaults){.up = up, .down = down};
}

// The codecs of all rounds but the early ones.
static int fill_codecs(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                       const char *usual_up, const char *usual_down,
                       struct tern_federation_config *config)
{
    const struct defaults defaults = defaults_of(s, config);
    const char *set_down = s->codec_codec_down[0] != '\0' ? s->codec_codec_down : s->codec_codec;
    const char *up = defaults.up ? usual_up : s->codec_codec;
    const char *down = defaults.down ? usual_down : set_down;
    TERN_CLI_TRY(parse_codec(cli, "codec.codec", up, &config->codec_up));
    TERN_CLI_TRY(parse_codec(cli, "codec.codec_down", down, &config->downloads.codec));
    return check_codec_down(cli, s, &config->downloads.codec);
}

static int fill_early(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                      const struct accuracy *accuracy, const struct usual *row,
                      struct tern_federation_config *config)
{
    const struct defaults defaults = defaults_of(s, config);
    const char *codec = early_codec(accuracy, s->round_rounds);
    struct tern_early_codecs *early = &config->early;
    *early = (struct tern_early_codecs){.up = config->codec_up, .down = config->downloads.codec};
    if (defaults.up) {
        TERN_CLI_TRY(parse_codec(cli, "codec.accuracy", codec, &early->up));
    }
    if (defaults.down) {
        TERN_CLI_TRY(parse_codec(cli, "codec.accuracy", codec, &early->down));
    }
    early->rounds = defaults.up || defaults.down ? early_rounds(row, s->round_rounds) : 0;
    return TERN_EXIT_OK;
}

int tern_cli_fill_for_model(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            uint32_t values, struct tern_federation_config *config)
{
    char dense[TERN_CODEC_SPEC_MAX];
    char why[256];
    const struct usual *row = usual_of(values);
    const struct accuracy *accuracy = accuracy_of(s->codec_accuracy);
    if (accuracy == NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "codec.accuracy = %s is not known; allowed: thrifty | balanced | "
                             "careful",
                             s->codec_accuracy);
    }
    config->early.rounds = 0;
    config->downloads.residual =
        s->downloads_residual > 0.0 ? s->downloads_residual : row->residual;
    if (config->strategy->has_epochs) {
        write_dense(values, dense);
        TERN_CLI_TRY(fill_codecs(cli, s, dense, "float32", config));
    } else if (accuracy->always) {
        TERN_CLI_TRY(fill_codecs(cli, s, accuracy->codec, accuracy->codec, config));
    } else {
        TERN_CLI_TRY(fill_codecs(cli, s, row->up, row->down, config));
        if (accuracy->codec != NULL) {
            TERN_CLI_TRY(fill_early(cli, s, accuracy, row, config));
        }
    }
    return tern_cli_check(cli, tern_federation_suits(config, values, why), "%s", why);
}
