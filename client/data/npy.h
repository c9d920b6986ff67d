// The NPY format of NumPy, versions 1 to 3 (numpy.lib.format): a header that is a Python dict as
// text, then the array. Read are numbers that are little-endian or single bytes, in C order; never
// pickled objects. Hosted; reentrant.
#ifndef TERN_NPY_H
#define TERN_NPY_H

#include "data/elements.h"
#include "data/source.h"

#define TERN_NPY_MAX_DIMS 4

struct tern_npy {
    struct tern_elements type;
    uint32_t dims[TERN_NPY_MAX_DIMS];
    uint32_t dim_count; // 1 to TERN_NPY_MAX_DIMS
    uint64_t count;     // elements
};

// Reads the header and checks that the array can be in the file and is within limits->max_bytes as
// float32.
// TERN_ERR_CORRUPT    no NPY file, a header that is none, an array that is longer than its file
// TERN_ERR_UNKNOWN    another type of elements, another byte order, Fortran order, other dimensions
// TERN_ERR_TOO_LARGE, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_npy_read_header(struct tern_input *input,
                                                    const struct tern_data_limits *limits,
                                                    struct tern_npy *npy);

// Reads all elements as numbers into values[npy->count], and expects the end of the input.
// TERN_ERR_CORRUPT  a number that is not finite (float32: that is beyond its range), an input that
//                   is too short or too long; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_npy_read_floats(struct tern_input *input,
                                                    const struct tern_npy *npy, float *values);
TERN_MUST_USE enum tern_result tern_npy_read_doubles(struct tern_input *input,
                                                     const struct tern_npy *npy, double *values);

// The same of an array of unsigned bytes, as it is.
TERN_MUST_USE enum tern_result tern_npy_read_bytes(struct tern_input *input,
                                                   const struct tern_npy *npy, uint8_t *values);

#endif
