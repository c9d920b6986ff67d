#include "fleet/planned.h"
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wanted {
    const char *section;
    const char *key;
    char *value;
    size_t size;
};

static int on_key(void *ctx, const char *section, const char *key, const char *value)
{
    const struct wanted *wanted = ctx;
    if (strcmp(section, wanted->section) == 0 && strcmp(key, wanted->key) == 0) {
        snprintf(wanted->value, wanted->size, "%s", value);
    }
    return 1;
}

void tern_fleet_planned(const struct tern_fleet_plan *plan, const char *section, const char *key,
                        char *value, size_t size)
{
    struct wanted wanted = {section, key, value, size};
    char prefix[128];
    const int len = snprintf(prefix, sizeof prefix, "%s.%s=", section, key);
    value[0] = '\0';
    if (plan->path != NULL) {
        ini_parse(plan->path, on_key, &wanted);
    }
    for (unsigned i = 0; i < plan->set_count; i++) {
        if (strncmp(plan->sets[i], prefix, (size_t)len) == 0) {
            snprintf(value, size, "%s", plan->sets[i] + len);
        }
    }
}

uint32_t tern_fleet_planned_rounds(const struct tern_fleet_plan *plan)
{
    char value[32];
    tern_fleet_planned(plan, "round", "rounds", value, sizeof value);
    return (uint32_t)strtoul(value, NULL, 10);
}
