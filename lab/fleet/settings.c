#include "fleet/settings.h"

#define TERN_SETTINGS_STRUCT struct tern_fleet_settings
#include "hosted/setting_rows.h"

static const struct tern_setting table[] = {
#include "fleet/settings.def"
};

const struct tern_settings tern_fleet_settings_table =
    TERN_SETTINGS("tern-fleet", table, tern_settings_sections);
