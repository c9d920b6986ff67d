// Reads numbers of several types and byte orders from a file: the elements of NPY and IDX arrays. Hosted; reentrant.
#ifndef TERN_ELEMENTS_H
#define TERN_ELEMENTS_H

#include "hosted/input.h"
#include <stdbool.h>

struct tern_elements {
    char kind;       // 'b' (bool), 'i', 'u' or 'f'
    uint32_t width;  // bytes of an element: 1, 2, 4 or 8; 'f': 4 or 8
    bool big_endian; // false: little-endian
};

// Whether the elements are unsigned bytes, which a data set does not convert.
static inline bool tern_elements_are_bytes(const struct tern_elements *type)
{
    return type->kind == 'u' && type->width == 1;
}

// A part of an array, for reading and for messages.
struct tern_elements_range {
    const char *what; // "the array"
    uint64_t first;   // index of the part's first element in the array
    uint64_t count;   // elements of the part
    uint64_t row;     // elements per row
};

// Reads the range into values[range->count].
// TERN_ERR_CORRUPT  a number is not finite or exceeds float32, or the input is too short
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_elements_read_floats(struct tern_input *input,
                                                         const struct tern_elements *type,
                                                         const struct tern_elements_range *range,
                                                         float *values);
TERN_MUST_USE enum tern_result tern_elements_read_doubles(struct tern_input *input,
                                                          const struct tern_elements *type,
                                                          const struct tern_elements_range *range,
                                                          double *values);

#endif
