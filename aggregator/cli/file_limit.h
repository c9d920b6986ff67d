// How many files the process may have open, against what its limits of connections and bodies need.
#ifndef TERN_CLI_FILE_LIMIT_H
#define TERN_CLI_FILE_LIMIT_H

#include "cli/state.h"

// Files that a service with these settings may have open at once.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings);

// Raises the soft limit of open files to what the settings may need, as far as the hard limit goes,
// and logs a warning with what to do where that is not enough. Before the listener starts.
void tern_cli_raise_file_limit(const struct tern_cli *cli);

#endif
