// The verbs of tern-aggregator. verbs.def lists them; hosted/cli.h parses the options and loads the settings (struct
// tern_aggregator_settings, at cli->program->values). A verb writes results to stdout and errors to stderr, and returns an
// exit code (enum tern_exit). Called once per process, from the main thread.
//
// All verbs but serve and relay work on the database directly, also while a service runs, which notices the changes.
#ifndef TERN_AGGREGATOR_VERBS_H
#define TERN_AGGREGATOR_VERBS_H

#include "hosted/cli.h"

#define VERB(name, function, ...) int tern_cli_##function(struct tern_cli *cli);
#include "cli/verbs.def"
#undef VERB

#endif
