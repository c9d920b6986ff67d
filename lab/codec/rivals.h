// The general compressors that were installed when tern-bench was built, for comparison.
#ifndef TERN_RIVALS_H
#define TERN_RIVALS_H

#include <stddef.h>
#include <stdint.h>

struct rival {
    const char *name;
    size_t (*bound)(size_t len);

    // Returns the number of bytes written; 0: error.
    size_t (*compress)(const uint8_t *src, size_t len, uint8_t *dst, size_t size);
    size_t (*expand)(const uint8_t *src, size_t len, uint8_t *dst, size_t size);
};

// The list ends with a NULL name.
extern const struct rival rivals[];

#endif
