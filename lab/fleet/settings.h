// The settings of tern-fleet: a struct generated from settings.def, and its table for hosted/settings.h. Fields are
// named section_key. Read-only after loading.
#ifndef TERN_FLEET_SETTINGS_H
#define TERN_FLEET_SETTINGS_H

#include "hosted/settings.h"

struct tern_fleet_settings {
#include "hosted/setting_fields.def"

#include "fleet/settings.def"

#include "hosted/setting_rows_end.def"
};

extern const struct tern_settings tern_fleet_settings_table;

#endif
