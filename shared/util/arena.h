// Divides one block of memory, which the caller owns, into consecutive parts. Pure; reentrant.
#ifndef TERN_ARENA_H
#define TERN_ARENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ARENA_ALIGNMENT 64u // alignment of each part's offset in the memory

// An arena over the caller's memory. With memory NULL it only adds up the sizes of the parts.
struct tern_arena {
    uint8_t *memory;
    size_t size;
    size_t used; // bytes; above `size` if the parts do not fit
};

// Returns the next count * each bytes, aligned for any vector if `memory` is; NULL when only
// counting or if they do not fit. A sum beyond size_t sets `used` to its largest value.
void *tern_arena_take(struct tern_arena *arena, size_t count, size_t each);

#ifdef __cplusplus
}
#endif

#endif
