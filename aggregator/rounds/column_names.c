#include "rounds/column_names.h"

#include <string.h>

static uint32_t index_of(const struct tern_column_names *names, uint32_t tag)
{
    uint32_t index = 0;
    while (index < names->count && names->entries[index].tag != tag) {
        index++;
    }
    return index;
}

static void remove_client(struct tern_column_names *names, uint32_t tag)
{
    const uint32_t index = index_of(names, tag);
    if (index == names->count || --names->entries[index].clients > 0) {
        return;
    }
    names->count--;
    memmove(&names->entries[index], &names->entries[index + 1],
            (names->count - index) * sizeof names->entries[0]);
}

static void add_client(struct tern_column_names *names, uint32_t tag)
{
    const uint32_t index = index_of(names, tag);
    if (index == TERN_COLUMN_NAMES_MAX) {
        return;
    }
    if (index == names->count) {
        names->entries[names->count++].tag = tag;
        names->entries[index].clients = 0;
    }
    names->entries[index].clients++;
}

void tern_column_names_replace(struct tern_column_names *names, uint32_t from, uint32_t to)
{
    if (from == to) {
        return;
    }
    if (from != 0) {
        remove_client(names, from);
    }
    if (to != 0) {
        add_client(names, to);
    }
}

uint32_t tern_column_names_most_common(const struct tern_column_names *names)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < names->count; i++) {
        best = names->entries[i].clients > names->entries[best].clients ? i : best;
    }
    return names->count > 0 ? names->entries[best].tag : 0;
}

bool tern_column_names_differ(const struct tern_column_names *names, uint32_t tag)
{
    return tag != 0 && tag != tern_column_names_most_common(names);
}
