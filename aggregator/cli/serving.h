// What `serve` makes of its settings, at its start and when it reads them again. From the main thread.
#ifndef TERN_CLI_SERVING_H
#define TERN_CLI_SERVING_H

#include "cli/logging.h"
#include "cli/service_advice.h"
#include "cli/service_config.h"
#include "http/http.h"
#include "tensor/model.h"

struct tern_cli_serving {
    struct tern_cli_logging logging;
    struct tern_service_config service;
    struct tern_http_limits limits; // of the clients' listener
};

// Fills *serving, whose service is zeroed but for clocks and callbacks, with what does not depend on
// the model. Returns an exit code, as tern_cli_fill_service().
int tern_cli_read_serving(struct tern_cli *cli, struct tern_cli_serving *serving);

// Likewise with what does. spec: of the model, for messages; say: advice.
int tern_cli_fit_serving(struct tern_cli *cli, const struct tern_model *model, const char *spec,
                         tern_cli_say say, struct tern_cli_serving *serving);

#endif
