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
        .sorted = calloc(max, sizeof(struct tern_label)),
    };
    if (set->names == NULL || set->slots == NULL || set->sorted == NULL) {
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
    free(set->sorted);
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

// Reads a whole number below max without leading zeros.
static bool read_class(const char *name, uint32_t max, uint32_t *value)
{
    size_t len = strlen(name);
    if (len == 0 || len > 5 || strspn(name, "0123456789") != len || (name[0] == '0' && len > 1)) {
        return false;
    }
    *value = (uint32_t)strtoul(name, NULL, 10);
    return *value < max;
}

static uint32_t numbered_classes(const struct tern_label_set *set, uint16_t *classes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t value;
        if (!read_class(set->names[i], set->max, &value)) {
            return 0;
        }
        classes[i] = (uint16_t)value;
        count = value >= count ? value + 1 : count;
    }
    return count;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tern_label *)a)->name, ((const struct tern_label *)b)->name);
}

uint32_t tern_label_set_classes(const struct tern_label_set *set, uint16_t *classes)
{
    uint32_t count = numbered_classes(set, classes);
    if (count > 0) {
        return count;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        set->sorted[i] = (struct tern_label){set->names[i], i};
    }
    qsort(set->sorted, set->count, sizeof *set->sorted, by_name);
    for (uint32_t i = 0; i < set->count; i++) {
        classes[set->sorted[i].number] = (uint16_t)i;
    }
    return set->count;
}
