// The input of a verb: all float32 tensors of a file in one array. A file of raw little-endian
// float32 has one tensor without a name; a safetensors file has several.
#ifndef TERN_TENSOR_SET_H
#define TERN_TENSOR_SET_H

#include "hosted/cli.h"
#include <cjson/cJSON.h>
#include <stdint.h>

struct tensor {
    char *name;  // "" in a raw file
    char *shape; // "[128,784]"
    size_t count;
    size_t offset; // index of its first value in the set
};

struct tensor_set {
    struct tensor *tensors;
    size_t tensor_count;
    float *values;
    size_t count; // values of all tensors
    bool named;   // true for a safetensors file
};

// Reads a file named on the command line; "-" is the standard input. The file is safetensors if its
// name ends in .safetensors or its first bytes look like it; a name ending in .f32 means raw
// float32. only: the one tensor to read; NULL: all that are F32, F16 or BF16, and a line on stderr
// names the others. On error prints the reason on stderr.
TERN_MUST_USE enum tern_result tern_tensor_set_read(const struct tern_cli *cli, const char *path,
                                                    const char *only, struct tensor_set *set);

void tern_tensor_set_free(struct tensor_set *set);

// Writes the values to a file: safetensors (F32) if its name ends in .safetensors, else raw
// float32. On error prints the reason on stderr.
// TERN_ERR_CONFIG  safetensors needs names, and the set has none
TERN_MUST_USE enum tern_result tern_tensor_set_write(const struct tern_cli *cli, const char *path,
                                                     const struct tensor_set *set);

// Returns true if all values are finite.
bool tern_tensor_set_is_finite(const struct tensor_set *set);

// Reports the first value that is NaN or infinite, with its tensor; if all are finite, reports that
// they are too large for the codec. Returns the exit code.
int tern_tensor_set_fail(const struct tern_cli *cli, const struct tensor_set *set,
                         const char *spec);

// Returns true if a file is safetensors, by its name and its first bytes.
bool tern_tensor_file_is_named(const char *path, const uint8_t *bytes, size_t len);

#endif
