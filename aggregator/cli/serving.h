// The settings of `serve`, checked and turned into what the service, its listener and its log take. Called at the start,
// when the settings are read again, and by `doctor` and `init`; from the main thread.
#ifndef TERN_CLI_SERVING_H
#define TERN_CLI_SERVING_H

#include "cli/service_advice.h"
#include "cli/service_config.h"
#include "cli/settings.h"
#include "cli/verbs.h"
#include "codec/codec.h"
#include "hosted/log.h"
#include "http/http.h"
#include "service/service.h"
#include "tensor/model.h"

// The section [log] of the settings.
struct tern_cli_logging {
    enum tern_log_level level;
    enum tern_log_format format;
    struct tern_service_logging requests;
};

// Sets level and format of the lines that follow.
void tern_cli_take_logging(const struct tern_cli_logging *logging);

// Returns the most bytes that an update of `model` under `codec` takes.
uint64_t tern_cli_update_max(const struct tern_codec *codec, const struct tern_model *model);

// Sets *limit to the most bytes of a request's body: limits.body_bytes, or what the model's updates take under any codec,
// since a round keeps the codec that it was opened with. spec: the model's, for the message. Returns an exit code; refuses
// a limit that updates under `codec`, which is codec.codec, would exceed.
int tern_cli_body_limit(struct tern_cli *cli, const struct tern_codec *codec,
                        const struct tern_model *model, const char *spec, uint32_t *limit);

struct tern_cli_serving {
    struct tern_cli_logging logging;
    struct tern_service_config service;
    struct tern_http_limits limits; // of the clients' listener
};

// Fills *serving, whose service is zeroed but for clocks and callbacks, with what does not depend on
// the model. Returns an exit code, as tern_cli_fill_service().
int tern_cli_read_serving(struct tern_cli *cli, struct tern_cli_serving *serving);

// Fills in what depends on the model. spec: the model's, for messages; say: prints advice.
int tern_cli_fit_serving(struct tern_cli *cli, const struct tern_model *model, const char *spec,
                         tern_cli_say say, struct tern_cli_serving *serving);

#endif
