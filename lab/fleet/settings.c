#include "fleet/settings.h"

#define TERN_SETTINGS_STRUCT struct tern_fleet_settings
#include "hosted/setting_rows.h"

static const struct tern_setting table[] = {
#include "fleet/settings.def"
};

// read_planned() in main.c also reads these keys.
static const char *const planned[] = {"round.rounds", "federation.model", NULL};

const struct tern_settings tern_fleet_settings_table = {
    .program = "tern-fleet",
    .table = table,
    .count = sizeof table / sizeof table[0],
    .foreign_sections = tern_settings_sections,
    .foreign_keys = planned,
};
