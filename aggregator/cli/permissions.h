// Who may read and write what a service keeps secret.
#ifndef TERN_CLI_PERMISSIONS_H
#define TERN_CLI_PERMISSIONS_H

#include "cli/state.h"

// Logs a warning for each secret of the service that others of this machine may read or write, with
// what to do: the state directory and what lies there, and the private key of the certificate.
void tern_cli_log_permissions(const struct tern_cli *cli);

#endif
