// What a running service takes anew on SIGHUP: certificate and key, and the settings that may change
// while it runs. On the main thread only.
#ifndef TERN_CLI_RELOAD_H
#define TERN_CLI_RELOAD_H

#include "cli/state.h"
#include "http/http.h"

// Sets the level of the log that the settings say. Returns an exit code.
int tern_cli_set_log_level(const struct tern_cli *cli);

// Reads settings, certificate and key again. Whatever is wrong with them is logged and changes
// nothing; settings that need a restart are named.
void tern_cli_reload(struct tern_cli *cli, struct tern_http_server *server);

// Logs when the certificate expires: as an error when it has, as a warning in its last two weeks.
void tern_cli_log_certificate(const struct tern_cli *cli, const struct tern_http_server *server);

#endif
