#include "hosted/name_set.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16u // a power of two, as every room is

void tern_name_set_init(struct tern_name_set *set, uint32_t max)
{
    *set = (struct tern_name_set){.max = max};
}

void tern_name_set_free(struct tern_name_set *set)
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

// The slot of the name, or the free one where it belongs. There always is a free one.
static uint32_t *slot_of(const struct tern_name_set *set, const char *name)
{
    const uint32_t mask = 2 * set->room - 1;
    uint32_t slot = hash_of(name) & mask;
    while (set->slots[slot] != 0 && strcmp(set->names[set->slots[slot] - 1], name) != 0) {
        slot = (slot + 1) & mask;
    }
    return &set->slots[slot];
}

static enum tern_result grow(struct tern_name_set *set)
{
    const uint32_t room = set->room == 0 ? FIRST_ROOM : 2 * set->room;
    uint32_t *slots = calloc((size_t)room * 2, sizeof *slots);
    char **names = slots != NULL ? realloc(set->names, room * sizeof *names) : NULL;
    if (names == NULL) {
        free(slots);
        return TERN_ERR_NO_MEMORY;
    }
    free(set->slots);
    set->slots = slots;
    set->names = names;
    set->room = room;
    for (uint32_t i = 0; i < set->count; i++) {
        *slot_of(set, names[i]) = i + 1;
    }
    return TERN_OK;
}

static enum tern_result add_name(struct tern_name_set *set, const char *name, uint32_t *number)
{
    if (set->count == set->max) {
        return TERN_ERR_TOO_LARGE;
    }
    if (set->count == set->room) {
        TERN_TRY(grow(set));
    }
    char *copy = strdup(name);
    if (copy == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    *number = set->count++;
    *slot_of(set, name) = *number + 1;
    set->names[*number] = copy;
    return TERN_OK;
}

enum tern_result tern_name_set_find(struct tern_name_set *set, const char *name, bool add,
                                    uint32_t *number)
{
    const uint32_t place = set->room > 0 ? *slot_of(set, name) : 0;
    if (place > 0) {
        *number = place - 1;
        return TERN_OK;
    }
    return add ? add_name(set, name, number) : TERN_ERR_NOT_FOUND;
}

bool tern_name_is_class(const char *name, uint32_t max, uint32_t *value)
{
    size_t len = strlen(name);
    if (len == 0 || len > 5 || strspn(name, "0123456789") != len || (name[0] == '0' && len > 1)) {
        return false;
    }
    *value = (uint32_t)strtoul(name, NULL, 10);
    return *value < max;
}
