// What serve makes of its settings before anything is started. From the main thread.
#ifndef TERN_CLI_SERVICE_CONFIG_H
#define TERN_CLI_SERVICE_CONFIG_H

#include "cli/settings.h"
#include "hosted/cli.h"
#include "service/service.h"

// Fills what the settings say of *config, which is zeroed. Returns TERN_EXIT_OK, or the exit code
// after it has said on stderr which settings cannot be used and why.
int tern_cli_fill_service(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                          struct tern_service_config *config);

// The part of it that [strategy] says; called by the above.
int tern_cli_fill_strategy(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                           struct tern_federation_config *config);

// Likewise [downloads] and what [limits] says of downloads.
int tern_cli_fill_downloads(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                            struct tern_catchup_config *config);

#endif
