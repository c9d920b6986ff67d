// What a verb works on: the float32 tensors of a file, one behind the other. A file of raw
// little-endian float32 holds one tensor without a name; a safetensors file holds several.
#ifndef TERN_TENSOR_SET_H
#define TERN_TENSOR_SET_H

#include "hosted/cli.h"
#include <cjson/cJSON.h>
#include <stdint.h>

struct tensor {
    char *name;  // "" in a raw file
    char *shape; // "[128,784]"
    size_t count;
    size_t offset; // of its first value in the set
};

struct tensor_set {
    struct tensor *tensors;
    size_t tensor_count;
    float *values;
    size_t count; // of all tensors
    bool named;   // from a safetensors file
};

// Reads a file that the command line named, "-" for the standard input. It is safetensors when its
// name ends so or its first bytes say so, unless its name ends in .f32. only: the one tensor to
// take, or NULL for all; those that are not F32, F16 or BF16 are then left out, and a line on
// stderr says so. On error says why on stderr.
TERN_MUST_USE enum tern_result tern_tensor_set_read(const struct tern_cli *cli, const char *path,
                                                    const char *only, struct tensor_set *set);

void tern_tensor_set_free(struct tensor_set *set);

// Writes the values to a file: safetensors (F32) when its name ends so, else raw float32. On error
// says why on stderr.
// TERN_ERR_CONFIG  the name ends so, but the set is not named
TERN_MUST_USE enum tern_result tern_tensor_set_write(const struct tern_cli *cli, const char *path,
                                                     const struct tensor_set *set);

// Whether no value is NaN or infinite.
bool tern_tensor_set_is_finite(const struct tensor_set *set);

// Says which value of the set is NaN or infinite, and of which tensor, or when none is that they
// are too large for the codec. Returns the exit code.
int tern_tensor_set_fail(const struct tern_cli *cli, const struct tensor_set *set,
                         const char *spec);

// Whether a file is safetensors: its bytes, and the name that it was given by.
bool tern_tensor_file_is_named(const char *path, const uint8_t *bytes, size_t len);

#endif
