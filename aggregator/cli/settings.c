#include "cli/settings.h"

#include "strategies/strategy.h"
#include <stddef.h>

#define FIELD(section, key)                                                                        \
    offsetof(struct tern_aggregator_settings, section##_##key),                                    \
        sizeof(((struct tern_aggregator_settings *)0)->section##_##key)
#define ROW(section, key, type, fallback, min, max, doc)                                           \
    {#section, #key, type, FIELD(section, key), fallback, min, max, doc},

#define TEXT(section, key, size, fallback, doc)                                                    \
    ROW(section, key, TERN_SETTING_TEXT, fallback, 0, (size)-1, doc)
#define BOOL(section, key, fallback, doc) ROW(section, key, TERN_SETTING_BOOL, fallback, 0, 1, doc)
#define U32(section, key, fallback, min, max, doc)                                                 \
    ROW(section, key, TERN_SETTING_U32, fallback, min, max, doc)
#define U64(section, key, fallback, min, max, doc)                                                 \
    ROW(section, key, TERN_SETTING_U64, fallback, min, max, doc)
#define REAL(section, key, fallback, min, max, doc)                                                \
    ROW(section, key, TERN_SETTING_REAL, fallback, min, max, doc)
#define MS(section, key, fallback, min, max, doc)                                                  \
    ROW(section, key, TERN_SETTING_MS, fallback, min, max, doc)
#define BYTES(section, key, fallback, min, max, doc)                                               \
    ROW(section, key, TERN_SETTING_BYTES, fallback, min, max, doc)

static const struct tern_setting table[] = {
#include "cli/settings.def"
};

const struct tern_settings tern_aggregator_settings_table = {
    .program = "tern-aggregator",
    .table = table,
    .count = sizeof table / sizeof table[0],
    .foreign_sections = tern_settings_sections,
};
