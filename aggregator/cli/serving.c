#include "cli/serving.h"

#include "cli/derived.h"
#include "cli/state.h"
#include "codec/container.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- The section [log]

static enum tern_logged_requests requests_named(const char *name)
{
    return strcmp(name, "all") == 0    ? TERN_LOG_ALL_REQUESTS
           : strcmp(name, "none") == 0 ? TERN_LOG_NO_REQUESTS
                                       : TERN_LOG_REFUSED_REQUESTS;
}

static void read_logging(const struct tern_aggregator_settings *settings,
                         struct tern_cli_logging *logging)
{
    logging->level = tern_log_level_named(settings->log_level);
    logging->format = tern_log_format_named(settings->log_format);
    logging->requests = (struct tern_service_logging){
        .requests = requests_named(settings->log_requests),
        .requests_per_minute = settings->log_requests_per_minute,
    };
}

void tern_cli_take_logging(const struct tern_cli_logging *logging)
{
    tern_log_set_level(logging->level);
    tern_log_set_format(logging->format);
}

// --- The longest body of a request

// How long the body of a request may be, as the model needs it. init says it, serve goes by it. From
// the main thread.

uint64_t tern_cli_update_max(const struct tern_codec *codec, const struct tern_model *model)
{
    return tern_container_bound(codec, model) + TERN_WIRE_OVERHEAD;
}

// PostgreSQL limits a value to 1 GiB; the rest is room for the row's head and other columns in its messages.
#define POSTGRES_VALUE_MAX 1000000000u

static uint64_t default_limit(const struct tern_model *model)
{
    uint64_t needed = tern_container_bound_any(model) + TERN_WIRE_OVERHEAD;
    needed = needed < TERN_WIRE_MESSAGE_MAX ? TERN_WIRE_MESSAGE_MAX : needed;
    return needed < UINT32_MAX ? needed : UINT32_MAX;
}

// Checks limits.body_bytes: a client whose update is too large would train in vain, round after round.
int tern_cli_body_limit(struct tern_cli *cli, const struct tern_codec *codec,
                        const struct tern_model *model, const char *spec, uint32_t *limit)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    const uint64_t needed = tern_cli_update_max(codec, model);
    *limit = (uint32_t)(s->limits_body_bytes != 0 ? s->limits_body_bytes : default_limit(model));
    if (tern_state_is_postgres(cli) && *limit > POSTGRES_VALUE_MAX) {
        *limit = POSTGRES_VALUE_MAX;
    }
    if (needed <= *limit) {
        return TERN_EXIT_OK;
    }
    if (*limit == POSTGRES_VALUE_MAX && tern_state_is_postgres(cli)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "an update of %s under codec.codec = %s may have %" PRIu64
                             " bytes, and PostgreSQL stores values of 1 GB at most: choose another "
                             "codec, or leave store.url empty",
                             spec, s->codec_codec, needed);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "limits.body_bytes = %" PRIu32 " is too small for an update of %s under "
                         "codec.codec = %s; set it to %" PRIu64 " or more, or to 0",
                         *limit, spec, s->codec_codec, needed);
}

// --- All settings of serve

int tern_cli_read_serving(struct tern_cli *cli, struct tern_cli_serving *serving)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    read_logging(s, &serving->logging);
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
