// [downloads] of the settings.
#include "cli/derived.h"
#include "cli/service_config.h"
#include "codec/plan.h"

#include <string.h>

static int fill_refine(struct tern_cli *cli, const char *spec, struct tern_codec *codec)
{
    struct tern_spec_refusal refusal;
    char sentence[TERN_SPEC_SENTENCE_MAX];
    if (tern_codec_parse(spec, codec, &refusal) != TERN_OK) {
        tern_spec_explain(&refusal, sentence);
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "downloads.refine = %s: %s", spec, sentence);
    }
    if (!tern_codec_downloads(codec)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "downloads.refine = %s: %s is for updates alone",
                             spec, tern_codec_entry(codec->id)->name);
    }
    return TERN_EXIT_OK;
}

static int fill_final_model(struct tern_cli *cli, const char *name, enum tern_final_model *who)
{
    static const char *const names[] = {[TERN_FINAL_MODEL_NONE] = "none",
                                        [TERN_FINAL_MODEL_EVALUATORS] = "evaluators",
                                        [TERN_FINAL_MODEL_ALL] = "all"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *who = (enum tern_final_model)i;
            return TERN_EXIT_OK;
        }
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "downloads.final_model = %s is not known; allowed: evaluators | all | none", name);
}

int tern_cli_fill_downloads(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            struct tern_federation_config *federation)
{
    struct tern_catchup_config *config = &federation->downloads;
    const struct tern_derived_limits derived = tern_derived_limits(s);
    const bool cheapest = strcmp(s->downloads_plan, "cheapest") == 0;
    config->plan = cheapest ? TERN_DOWNLOADS_CHEAPEST : TERN_DOWNLOADS_TRUNK;
    config->passes = s->downloads_passes;
    config->keep_versions = s->limits_keep_versions;
    config->replica_bytes = derived.replica_bytes;
    config->replica_cache = derived.replica_cache;
    config->download_cache = derived.download_cache;
    config->spool_folder = s->federation_state;
    TERN_CLI_TRY(fill_final_model(cli, s->downloads_final_model, &federation->final_model));
    return fill_refine(cli, s->downloads_refine, &config->refine);
}
