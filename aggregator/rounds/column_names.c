#include "rounds/column_names.h"

#include <string.h>

static uint32_t place_of(const struct tern_column_names *names, uint32_t tag)
{
    uint32_t place = 0;
    while (place < names->count && names->of[place].tag != tag) {
        place++;
    }
    return place;
}

static void leave(struct tern_column_names *names, uint32_t tag)
{
    const uint32_t place = place_of(names, tag);
    if (place == names->count || --names->of[place].clients > 0) {
        return;
    }
    names->count--;
    memmove(&names->of[place], &names->of[place + 1], (names->count - place) * sizeof names->of[0]);
}

static void enter(struct tern_column_names *names, uint32_t tag)
{
    const uint32_t place = place_of(names, tag);
    if (place == TERN_COLUMN_NAMES_MAX) {
        return;
    }
    if (place == names->count) {
        names->of[names->count++].tag = tag;
        names->of[place].clients = 0;
    }
    names->of[place].clients++;
}

void tern_column_names_replace(struct tern_column_names *names, uint32_t from, uint32_t to)
{
    if (from == to) {
        return;
    }
    if (from != 0) {
        leave(names, from);
    }
    if (to != 0) {
        enter(names, to);
    }
}

uint32_t tern_column_names_most_common(const struct tern_column_names *names)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < names->count; i++) {
        best = names->of[i].clients > names->of[best].clients ? i : best;
    }
    return names->count > 0 ? names->of[best].tag : 0;
}

bool tern_column_names_differ(const struct tern_column_names *names, uint32_t tag)
{
    return tag != 0 && tag != tern_column_names_most_common(names);
}
