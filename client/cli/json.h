// What the verbs print with --json.
#ifndef TERN_CLIENT_JSON_H
#define TERN_CLIENT_JSON_H

#include <cjson/cJSON.h>

// Prints root on the standard output and frees it. Returns an exit code.
int tern_client_print_json(cJSON *root);

#endif
