// The settings of tern-client: a struct with the rows of client_settings.def, and their table for hosted/settings.h. Used by
// the verbs. Read-only after loading.
#ifndef TERN_CLIENT_SETTINGS_H
#define TERN_CLIENT_SETTINGS_H

#include "defaults.h"
#include "hosted/settings.h"

struct tern_client_settings {
#include "hosted/setting_fields.def"

#include "cli/client_settings.def"

#include "hosted/setting_rows_end.def"
};

// The settings of this process; they have their defaults until the program has read its configuration.
extern struct tern_client_settings tern_client_settings;

extern const struct tern_settings tern_client_settings_table;

#endif
