// What verbs print with --json.
#ifndef TERN_JSON_PRINT_H
#define TERN_JSON_PRINT_H

#include "hosted/cli.h"
#include <cjson/cJSON.h>

// Prints the value on one line of the standard output, frees it, and returns the exit code.
int tern_json_print(const struct tern_cli *cli, cJSON *value);

#endif
