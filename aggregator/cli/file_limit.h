// How many files the process may have open, against what its limits of connections and bodies need.
#ifndef TERN_CLI_FILE_LIMIT_H
#define TERN_CLI_FILE_LIMIT_H

#include "cli/state.h"

// Files that a service of so many clients has open at once, as far as its limits let it.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients);

// Raises the soft limit of open files to what the settings allow, as far as the hard limit goes, and logs a
// warning with what to do where that is too little for the enrolled clients. Before the listener starts.
void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients);

#endif
