// Who may read and write what a service keeps secret.
#ifndef TERN_CLI_PERMISSIONS_H
#define TERN_CLI_PERMISSIONS_H

#include "cli/state.h"
#include <sys/stat.h>

// change: the mode that chmod is to be told.
typedef void (*tern_loose_file)(void *ctx, const char *path, mode_t mode, const char *change);

// Calls back for each secret of the service that others of this machine may read or write: the state
// directory and what lies there, and the private key of the certificate.
void tern_cli_each_loose_file(const struct tern_cli *cli, tern_loose_file found, void *ctx);

// Logs a warning for each of them, with what to do.
void tern_cli_log_permissions(const struct tern_cli *cli);

#endif
