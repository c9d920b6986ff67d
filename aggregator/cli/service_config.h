// What serve makes of its settings before anything is started. From the main thread.
#ifndef TERN_CLI_SERVICE_CONFIG_H
#define TERN_CLI_SERVICE_CONFIG_H

#include "cli/settings.h"
#include "hosted/cli.h"
#include "service/service.h"

// Fills what the settings say of *config, which is zeroed, but for what depends on the model. Returns TERN_EXIT_OK, or
// the exit code after it has said on stderr which settings cannot be used and why.
int tern_cli_fill_service(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                          struct tern_service_config *config);

// Likewise what does: [codec] and downloads.residual, whose defaults go by how many values it has.
int tern_cli_fill_for_model(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            uint32_t values, struct tern_federation_config *config);

// The i-th value of codec.accuracy, from the fewest bytes to the most; NULL behind the last.
const char *tern_cli_accuracy(size_t i);

// Returns the least time between the openings of two rounds: round.min_interval, or the value of its `auto`.
uint64_t tern_cli_interval_ms(const struct tern_aggregator_settings *s);

#endif
