#include "fleet/planned_rounds.h"
#include <ini.h>
#include <stdlib.h>
#include <string.h>

static int on_key(void *ctx, const char *section, const char *key, const char *value)
{
    uint32_t *rounds = ctx;
    if (strcmp(section, "round") == 0 && strcmp(key, "rounds") == 0) {
        *rounds = (uint32_t)strtoul(value, NULL, 10);
    }
    return 1;
}

uint32_t tern_fleet_planned_rounds(const char *path, char *const *sets, unsigned set_count)
{
    static const char prefix[] = "round.rounds=";
    uint32_t rounds = 0;
    if (path != NULL) {
        ini_parse(path, on_key, &rounds);
    }
    for (unsigned i = 0; i < set_count; i++) {
        if (strncmp(sets[i], prefix, sizeof prefix - 1) == 0) {
            rounds = (uint32_t)strtoul(sets[i] + sizeof prefix - 1, NULL, 10);
        }
    }
    return rounds;
}
