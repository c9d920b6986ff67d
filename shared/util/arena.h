// Divides one block of memory, which the caller owns, into consecutive parts. Pure; reentrant.
#ifndef TERN_ARENA_H
#define TERN_ARENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ARENA_ALIGNMENT 64u // of every part, relative to the start of the memory

// Hands out parts of the caller's memory. With memory NULL it only counts.
struct tern_arena {
    uint8_t *memory;
    size_t size;
    size_t used; // may pass size: the caller checks once, at the end
};

// The next count * each bytes, aligned for any vector when memory is; NULL when counting or when
// they do not fit. A sum beyond size_t leaves `used` at its largest value.
void *tern_arena_take(struct tern_arena *arena, size_t count, size_t each);

#ifdef __cplusplus
}
#endif

#endif
