#include "cli/client_settings.h"

struct tern_client_settings tern_client_settings;

#define TERN_SETTINGS_STRUCT struct tern_client_settings

static const struct tern_setting table[] = {
#define X TERN_SETTING_ENTRY
#include "cli/client_settings.def"
#undef X
};

const struct tern_settings tern_client_settings_table =
    TERN_SETTINGS("tern-client", table, tern_settings_sections);
