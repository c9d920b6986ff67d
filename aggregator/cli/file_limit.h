// How many files the process may have open, against what its limits of connections and bodies need.
#ifndef TERN_CLI_FILE_LIMIT_H
#define TERN_CLI_FILE_LIMIT_H

#include "cli/state.h"

// Returns the number of files that a service with `clients` clients has open at once, within its
// limits.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients);

// Raises the soft limit of open files to the number that the settings allow, at most to the hard limit.
// Logs a warning with advice where the limit is too low for the enrolled clients. Call before the listener
// starts.
void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients);

#endif
