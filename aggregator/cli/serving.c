#include "cli/serving.h"

#include "cli/body_limit.h"
#include "cli/derived.h"
#include "cli/state.h"

int tern_cli_read_serving(struct tern_cli *cli, struct tern_cli_serving *serving)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    char why[256] = "";
    const enum tern_result result = tern_cli_read_logging(s, &serving->logging, why);
    TERN_CLI_TRY(tern_cli_check(cli, result, "%s", why));
    serving->service.logging = serving->logging.requests;
    return tern_cli_fill_service(cli, s, &serving->service);
}

static struct tern_http_limits http_limits(const struct tern_aggregator_settings *s,
                                           uint32_t body_bytes)
{
    const struct tern_derived_limits derived = tern_derived_limits(s);
    return (struct tern_http_limits){
        .connections = s->limits_connections,
        .connections_per_address = s->limits_connections_per_address,
        .connections_per_client = s->limits_connections_per_client,
        .header_bytes = s->limits_header_bytes,
        .body_bytes = body_bytes,
        .body_memory = derived.body_memory,
        .body_disk = derived.body_disk,
        .unfinished = s->limits_unfinished,
        .unfinished_ms = (uint32_t)s->limits_unfinished_time,
        .handshake_ms = (uint32_t)s->limits_handshake,
        .handshakes_per_address = s->limits_handshakes_per_address,
        .request_ms = (uint32_t)s->limits_request,
        .min_rate = s->limits_min_rate,
        .idle_ms = (uint32_t)s->limits_idle,
        .write_ms = (uint32_t)s->limits_request,
    };
}

int tern_cli_fit_serving(struct tern_cli *cli, const struct tern_model *model, const char *spec,
                         tern_cli_say say, struct tern_cli_serving *serving)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    struct tern_federation_config *config = &serving->service.federation;
    uint32_t body_bytes;
    TERN_CLI_TRY(tern_cli_fill_for_model(cli, s, model->count, config));
    TERN_CLI_TRY(tern_cli_body_limit(cli, &config->codec_up, model, spec, &body_bytes));
    tern_cli_advise(s, config, say);
    serving->limits = http_limits(s, body_bytes);
    return TERN_EXIT_OK;
}
