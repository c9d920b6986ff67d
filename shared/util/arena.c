#include "util/arena.h"

#include <stdbool.h>

void *tern_arena_take(struct tern_arena *arena, size_t count, size_t each)
{
    size_t size = 0;
    size_t start = 0;
    bool over = __builtin_mul_overflow(count, each, &size) ||
                __builtin_add_overflow(arena->used, TERN_ARENA_ALIGNMENT - 1, &start);
    start -= start % TERN_ARENA_ALIGNMENT;
    over = over || __builtin_add_overflow(start, size, &arena->used);
    if (over) {
        arena->used = SIZE_MAX;
    }
    if (arena->memory == NULL || arena->used > arena->size) {
        return NULL;
    }
    return arena->memory + start;
}
