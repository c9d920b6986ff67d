// Numbers of several types as they lie in a file: elements of NPY and IDX arrays. Hosted; reentrant.
#ifndef TERN_ELEMENTS_H
#define TERN_ELEMENTS_H

#include "hosted/input.h"
#include <stdbool.h>

struct tern_elements {
    char kind;       // 'b' (bool), 'i', 'u' or 'f'
    uint32_t width;  // bytes of an element: 1, 2, 4 or 8; of 'f' 4 or 8
    bool big_endian; // else little-endian
};

// Whether they are unsigned bytes, which a data set keeps as they are.
static inline bool tern_elements_are_bytes(const struct tern_elements *type)
{
    return type->kind == 'u' && type->width == 1;
}

// What is read of an array, for error sentences too.
struct tern_elements_range {
    const char *what; // "the array"
    uint64_t first;   // number of the first element in the array
    uint64_t count;   // elements
    uint64_t row;     // elements of a row
};

// Reads the range into values[range->count].
// TERN_ERR_CORRUPT  a number that is not finite (float32: that is beyond its range), or an input that
//                   is too short; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_elements_read_floats(struct tern_input *input,
                                                         const struct tern_elements *type,
                                                         const struct tern_elements_range *range,
                                                         float *values);
TERN_MUST_USE enum tern_result tern_elements_read_doubles(struct tern_input *input,
                                                          const struct tern_elements *type,
                                                          const struct tern_elements_range *range,
                                                          double *values);

#endif
