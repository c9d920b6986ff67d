// Warnings about valid settings that measurements have shown not to work well together (docs/DESIGN.md,
// docs/BENCHMARKS.md), or that have no effect. `serve` logs them; `serve --check` and `init` print them. From the main
// thread.
#ifndef TERN_CLI_SERVICE_ADVICE_H
#define TERN_CLI_SERVICE_ADVICE_H

#include "cli/estimates.h"
#include "cli/settings.h"
#include "federation/federation.h"

// Receives a warning: a sentence that names the settings, valid during the call.
typedef void (*tern_cli_advice)(const char *sentence);

// config: after tern_serve_config_fit_model(). time: of this config
void tern_cli_advise(const struct tern_aggregator_settings *s,
                     const struct tern_federation_config *config,
                     const struct tern_round_time *time, tern_cli_advice print);

// Prints a warning on stderr.
void tern_cli_print_advice(const char *sentence);

#endif
