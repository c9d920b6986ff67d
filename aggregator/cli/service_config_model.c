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
} usual[] = {
    {10000, "3lc:s=1,clip=4,coder=range", "density:p=0.5,least=64,fit=yes,coder=range", 1.0},
    {75000, "3lc:s=1,clip=4,coder=range", "density:p=0.1,least=64,coder=range", 1.0},
    {UINT32_MAX, "3lc:s=1,clip=4.5,coder=range", "density:p=0.07,least=64,coder=range", 1.5},
};

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
    struct tern_codec_refusal refusal;
    char sentence[TERN_CODEC_SENTENCE_MAX];
    if (tern_codec_parse(spec, codec, &refusal) == TERN_OK) {
        return TERN_EXIT_OK;
    }
    tern_codec_explain(&refusal, sentence);
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

int tern_cli_fill_for_model(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            uint32_t values, struct tern_federation_config *config)
{
    char dense[TERN_CODEC_SPEC_MAX];
    const struct usual epochs = {.up = dense, .down = "float32", .residual = 1.0};
    const bool has_epochs = config->strategy->has_epochs;
    const struct usual *row = has_epochs ? &epochs : usual_of(values);
    write_dense(values, dense);
    const double residual = s->downloads_residual;
    const bool is_usual = strcmp(s->codec_codec, "default") == 0;
    const char *up = is_usual ? row->up : s->codec_codec;
    const char *down = is_usual || has_epochs ? row->down : s->codec_codec;
    if (strcmp(s->codec_codec_down, "default") == 0) {
        down = row->down;
    } else if (s->codec_codec_down[0] != '\0') {
        down = s->codec_codec_down;
    }
    config->downloads.residual = residual > 0.0 ? residual : row->residual;
    TERN_CLI_TRY(parse_codec(cli, "codec.codec", up, &config->codec_up));
    TERN_CLI_TRY(parse_codec(cli, "codec.codec_down", down, &config->downloads.codec));
    TERN_CLI_TRY(check_codec_down(cli, s, &config->downloads.codec));
    char why[256];
    return tern_cli_check(cli, tern_federation_suits(config, values, why), "%s", why);
}
