// The settings of tern-ring: one struct made from ring_settings.def, and its table for hosted/settings.h.
// Read-only after loading.
#ifndef TERN_RING_SETTINGS_H
#define TERN_RING_SETTINGS_H

#include "hosted/settings.h"

struct tern_ring_settings {
#define X TERN_SETTING_FIELD
#include "cli/ring_settings.def"
#undef X
};

// What the program was told; its defaults until then.
extern struct tern_ring_settings tern_ring_settings;

extern const struct tern_settings tern_ring_settings_table;

#endif
