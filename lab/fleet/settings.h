// The settings of tern-fleet: one struct made from settings.def, and its table for
// hosted/settings.h. A field is named section_key. Read-only after loading.
#ifndef TERN_FLEET_SETTINGS_H
#define TERN_FLEET_SETTINGS_H

#include "hosted/settings.h"

struct tern_fleet_settings {
#define TEXT(section, key, size, fallback, doc) char section##_##key[size];
#define U32(section, key, fallback, min, max, doc) uint32_t section##_##key;
#define U64(section, key, fallback, min, max, doc) uint64_t section##_##key;
#define REAL(section, key, fallback, min, max, doc) double section##_##key;
#define MS(section, key, fallback, min, max, doc) uint64_t section##_##key;
#include "fleet/settings.def"
#undef TEXT
#undef U32
#undef U64
#undef REAL
#undef MS
};

extern const struct tern_settings tern_fleet_settings_table;

#endif
