// How many rounds an experiment's file plans: [round] rounds, which is the aggregator's setting.
// The fleet only shows it.
#ifndef TERN_FLEET_PLANNED_ROUNDS_H
#define TERN_FLEET_PLANNED_ROUNDS_H

#include <stdint.h>

// path: the INI file, NULL for none. sets: overrides "section.key=value", stronger than the file.
// 0 when neither says.
uint32_t tern_fleet_planned_rounds(const char *path, char *const *sets, unsigned set_count);

#endif
