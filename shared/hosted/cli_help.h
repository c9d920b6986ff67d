// The --help texts of a program. Internal to shared/hosted.
#ifndef TERN_CLI_HELP_H
#define TERN_CLI_HELP_H

#include "hosted/cli.h"
#include <stdio.h>

void tern_cli_help_program(const struct tern_cli_program *program, FILE *out);
void tern_cli_help_verb(const struct tern_cli_program *program, const struct tern_cli_verb *verb,
                        FILE *out);

#endif
