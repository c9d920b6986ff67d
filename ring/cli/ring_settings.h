// The settings of tern-ring: one struct made from ring_settings.def, and its table for hosted/settings.h.
// Read-only after loading.
#ifndef TERN_RING_SETTINGS_H
#define TERN_RING_SETTINGS_H

#include "hosted/settings.h"

struct tern_ring_settings {
#include "hosted/setting_fields.def"

#include "cli/ring_settings.def"

#include "hosted/setting_rows_end.def"
};

// What the program was told; its defaults until then.
extern struct tern_ring_settings tern_ring_settings;

extern const struct tern_settings tern_ring_settings_table;

#endif
