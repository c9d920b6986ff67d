#include "cli/client_settings.h"

struct tern_client_settings tern_client_settings;

#define TERN_SETTINGS_STRUCT struct tern_client_settings
#include "hosted/setting_rows.h"

static const struct tern_setting table[] = {
#include "cli/client_settings.def"
};

const struct tern_settings tern_client_settings_table =
    TERN_SETTINGS("tern-client", table, tern_settings_sections);
