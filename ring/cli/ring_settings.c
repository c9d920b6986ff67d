#include "cli/ring_settings.h"

struct tern_ring_settings tern_ring_settings;

#define TERN_SETTINGS_STRUCT struct tern_ring_settings

static const struct tern_setting table[] = {
#define X TERN_SETTING_ENTRY
#include "cli/ring_settings.def"
#undef X
};

const struct tern_settings tern_ring_settings_table =
    TERN_SETTINGS("tern-ring", table, tern_settings_sections);
