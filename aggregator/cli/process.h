// The limit of open files, and the secrets that other users can read. `serve` raises the limit and logs exposed secrets;
// `doctor` checks both. From the main thread.
#ifndef TERN_PROCESS_H
#define TERN_PROCESS_H

#include "cli/state.h"
#include <sys/stat.h>

// Returns the most files that a service with this many clients has open at once.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients);

// Raises the soft limit of open files to what the settings allow, at most to the hard limit. Logs a warning with advice if
// that is too low for the enrolled clients. Call before the listener starts.
void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients);

// Receives a secret file with its mode. change: the argument of chmod that repairs the mode.
typedef void (*tern_exposed_secret)(void *ctx, const char *path, mode_t mode, const char *change);

// Reports each secret of the service that other users may read or write: the state directory, its database and keys, and
// the private key of the certificate.
void tern_cli_each_exposed_secret(const struct tern_cli *cli, tern_exposed_secret found, void *ctx);

// Logs a warning with advice for each exposed secret.
void tern_cli_log_exposed_secrets(const struct tern_cli *cli);

#endif
