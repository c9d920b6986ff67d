// Reads the safetensors files that PyTorch users have
// (https://huggingface.co/docs/safetensors): 8 bytes little-endian length of the header, the
// header as JSON, the data of all tensors. Strict: whatever the header says is held against the
// bytes that are there. Pure but for the heap; reentrant.
#ifndef TERN_SAFETENSORS_H
#define TERN_SAFETENSORS_H

#include "result.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_HEADER_MAX 100000000 // bytes; what other readers allow too
#define SAFETENSORS_WHY_MAX 512          // bytes of a sentence with the terminating NUL

// How a tensor's values are stored, where they can be read as float32.
enum safetensors_kind {
    SAFETENSORS_OTHER,
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
};

struct safetensors_entry {
    const char *name;  // text without control characters
    const char *dtype; // as the header has it: "F32"
    char *shape;       // "[128,784]"
    enum safetensors_kind kind;
    uint64_t count; // values: the product of the shape
    const uint8_t *data;
    uint64_t data_len;
};

// The tensors in the order of their data.
struct safetensors {
    cJSON *header;
    struct safetensors_entry *entries;
    size_t count;
};

// Whether a file looks like safetensors: a header length that fits, and a "{" behind it.
bool safetensors_looks_like(const uint8_t *bytes, size_t len);

// Reads the header of a whole file, which is borrowed until safetensors_free(). Sizes must match
// dtype and shape, data must lie side by side and fill the file, names must differ.
// TERN_ERR_CORRUPT    not so; `why` says what and where
// TERN_ERR_TOO_LARGE  the header is over the limit
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result safetensors_parse(const uint8_t *bytes, size_t len,
                                                 struct safetensors *file,
                                                 char why[SAFETENSORS_WHY_MAX]);

void safetensors_free(struct safetensors *file);

// Converts the values of a tensor that is not SAFETENSORS_OTHER to float32, which is exact.
void safetensors_floats(const struct safetensors_entry *entry, float *values);

#endif
