// Finds, for `export`, the columns, scaling and classes that a client's settings give for its model. Called from the main
// thread.
#ifndef TERN_CLIENT_HELD_INPUTS_H
#define TERN_CLIENT_HELD_INPUTS_H

#include "cli/client_settings.h"
#include <cjson/cJSON.h>

// Adds it to metadata. spec: the model's; shared: its scaling is the federation's, so that no scale=FILE counts. What cannot
// be read is left out, and logged.
void tern_held_note_inputs(const struct tern_client_settings *settings, const char *spec,
                           bool shared, cJSON *notes);

#endif
