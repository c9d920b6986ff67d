// The commands that lead from init to a first client, as init prints them: tests run them as they stand.
#ifndef TERN_CLI_NEXT_STEPS_H
#define TERN_CLI_NEXT_STEPS_H

#include "hosted/cli.h"
#include <stdbool.h>

// client_ini: init wrote one.
void tern_next_steps_print(const struct tern_cli *cli, bool client_ini);

#endif
