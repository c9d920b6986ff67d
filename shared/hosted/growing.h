// A list that grows by doubling and does not store its capacity: it is full whenever its count is a power of two.
// Reentrant.
#ifndef TERN_GROWING_H
#define TERN_GROWING_H

#include <stdlib.h>

// Makes room for one more element of `size` bytes after the first `count`. Returns the list, which
// may have moved; NULL: no memory, and the list is as it was.
static inline void *tern_grown(void *list, size_t count, size_t size)
{
    if (count != 0 && (count & (count - 1)) != 0) {
        return list;
    }
    return realloc(list, (count == 0 ? 1 : 2 * count) * size);
}

#endif
