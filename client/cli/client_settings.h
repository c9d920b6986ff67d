// The settings of tern-client: one struct made from client_settings.def, and its table for
// hosted/settings.h. Read-only after loading.
#ifndef TERN_CLIENT_SETTINGS_H
#define TERN_CLIENT_SETTINGS_H

#include "defaults.h"
#include "hosted/settings.h"

struct tern_client_settings {
#include "hosted/setting_fields.def"

#include "cli/client_settings.def"

#include "hosted/setting_rows_end.def"
};

// What the program was told; its defaults until then.
extern struct tern_client_settings tern_client_settings;

extern const struct tern_settings tern_client_settings_table;

#endif
