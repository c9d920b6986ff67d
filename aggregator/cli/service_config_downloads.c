// [downloads] of the settings.
#include "cli/service_config.h"
#include "codec/plan.h"

#include <string.h>

static int fill_refine(struct tern_cli *cli, const char *spec, struct tern_codec *codec)
{
    struct tern_codec_refusal refusal;
    char sentence[TERN_CODEC_SENTENCE_MAX];
    if (tern_codec_parse(spec, codec, &refusal) != TERN_OK) {
        tern_codec_explain(&refusal, sentence);
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "downloads.refine = %s: %s", spec, sentence);
    }
    if (!tern_codec_downloads(codec)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "downloads.refine = %s: %s is for updates alone",
                             spec, tern_codec_entry(codec->id)->name);
    }
    return TERN_EXIT_OK;
}

int tern_cli_fill_downloads(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            struct tern_catchup_config *config)
{
    const bool cheapest = strcmp(s->downloads_plan, "cheapest") == 0;
    if (!cheapest && strcmp(s->downloads_plan, "trunk") != 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "downloads.plan = %s is not known; allowed: cheapest | trunk",
                             s->downloads_plan);
    }
    config->plan = cheapest ? TERN_DOWNLOADS_CHEAPEST : TERN_DOWNLOADS_TRUNK;
    config->passes = s->downloads_passes;
    config->keep_versions = s->limits_keep_versions;
    config->replica_bytes = s->limits_replica_bytes;
    config->replica_cache = s->limits_replica_cache;
    config->download_cache = s->limits_download_cache;
    config->spool_folder = s->federation_state;
    return fill_refine(cli, s->downloads_refine, &config->refine);
}
