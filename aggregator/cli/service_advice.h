// Settings that serve takes, but that are known not to go together by measurement (docs/DESIGN.md,
// docs/BENCHMARKS.md), or that have no effect beside the others. serve logs them, serve --check and
// init print them, and ./tern experiment shows what serve --check prints. From the main thread.
#ifndef TERN_CLI_SERVICE_ADVICE_H
#define TERN_CLI_SERVICE_ADVICE_H

#include "cli/settings.h"
#include "federation/federation.h"

// A sentence, which names the settings; valid during the call only.
typedef void (*tern_cli_say)(const char *sentence);

// config: what tern_cli_fill_service() made of the settings.
void tern_cli_advise(const struct tern_aggregator_settings *s,
                     const struct tern_federation_config *config, tern_cli_say say);

// Prints a sentence as a warning on stderr.
void tern_cli_print_advice(const char *sentence);

#endif
