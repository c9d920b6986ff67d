// What an experiment's file says of the aggregator: settings that the fleet shows and checks, and the
// aggregator alone obeys. Called from the main thread.
#ifndef TERN_MAIN_H
#define TERN_MAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where settings come from. path: the INI file, NULL for none. sets: overrides "section.key=value",
// stronger than the file. Borrowed.
struct tern_fleet_plan {
    const char *path;
    char *const *sets;
    unsigned set_count;
};

// The value of section.key in value[size], cut if it is longer; "" when nothing says it.
void tern_fleet_planned(const struct tern_fleet_plan *plan, const char *section, const char *key,
                        char *value, size_t size);

#endif
