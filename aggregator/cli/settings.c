#include "cli/settings.h"

#include "cli/derived.h"
#include "cli/setting_specs.h"
#include "strategies/strategy.h"

#define TERN_SETTINGS_STRUCT struct tern_aggregator_settings
#include "hosted/setting_rows.h"

#define LIVE TERN_SETTING_LIVE
#define INIT TERN_SETTING_INIT

static const struct tern_setting table[] = {
#include "cli/settings.def"
};

const struct tern_settings tern_aggregator_settings_table = {
    .program = "tern-aggregator",
    .table = table,
    .count = sizeof table / sizeof table[0],
    .foreign_sections = tern_settings_sections,
    .print_derived = tern_derived_print,
};
