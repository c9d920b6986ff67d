// The commands that lead from init to a first client, as init prints them: tests run them as they stand.
#ifndef TERN_CLI_NEXT_STEPS_H
#define TERN_CLI_NEXT_STEPS_H

#include "hosted/cli.h"
#include <stdbool.h>

#define TERN_NEXT_STEPS_PORT_MAX 16

// client_ini: init wrote one. spec: of the federation's model.
void tern_next_steps_print(const struct tern_cli *cli, bool client_ini, const char *spec);

// The port that clients are told; "PORT" where the service is to choose one when it starts.
const char *tern_next_steps_port(const struct tern_cli *cli, char text[TERN_NEXT_STEPS_PORT_MAX]);

#endif
