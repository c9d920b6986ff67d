#include "data/label_set.h"
#include <stdlib.h>
#include <string.h>

enum tern_result tern_label_set_init(struct tern_label_set *set, uint32_t max)
{
    uint32_t slots = 16;
    while (slots < 2 * max) {
        slots *= 2;
    }
    *set = (struct tern_label_set){
        .names = calloc(max, sizeof(char *)),
        .max = max,
        .slots = calloc(slots, sizeof(uint32_t)),
        .slot_count = slots,
    };
    if (set->names == NULL || set->slots == NULL) {
        tern_label_set_free(set);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

void tern_label_set_free(struct tern_label_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->names[i]);
    }
    free(set->names);
    free(set->slots);
    memset(set, 0, sizeof *set);
}

// FNV-1a.
static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    }
    return hash;
}

enum tern_result tern_label_set_find(struct tern_label_set *set, const char *name, bool add,
                                     uint32_t *number)
{
    uint32_t slot = hash_of(name) & (set->slot_count - 1);
    for (; set->slots[slot] != 0; slot = (slot + 1) & (set->slot_count - 1)) {
        *number = set->slots[slot] - 1;
        if (strcmp(set->names[*number], name) == 0) {
            return TERN_OK;
        }
    }
    if (!add) {
        return TERN_ERR_NOT_FOUND;
    }
    if (set->count == set->max) {
        return TERN_ERR_TOO_LARGE;
    }
    char *copy = strdup(name);
    if (copy == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    *number = set->count++;
    set->names[*number] = copy;
    set->slots[slot] = *number + 1;
    return TERN_OK;
}

bool tern_label_is_class(const char *name, uint32_t max, uint32_t *value)
{
    size_t len = strlen(name);
    if (len == 0 || len > 5 || strspn(name, "0123456789") != len || (name[0] == '0' && len > 1)) {
        return false;
    }
    *value = (uint32_t)strtoul(name, NULL, 10);
    return *value < max;
}
