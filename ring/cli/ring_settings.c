#include "cli/ring_settings.h"

struct tern_ring_settings tern_ring_settings;

#define TERN_SETTINGS_STRUCT struct tern_ring_settings
#include "hosted/setting_rows.h"

static const struct tern_setting table[] = {
#include "cli/ring_settings.def"
};

const struct tern_settings tern_ring_settings_table =
    TERN_SETTINGS("tern-ring", table, tern_settings_sections);
