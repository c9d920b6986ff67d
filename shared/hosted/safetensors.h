// Reads and writes the safetensors files that PyTorch users have
// (https://huggingface.co/docs/safetensors): 8 bytes little-endian length of the header, the
// header as JSON, the data of all tensors. Reading is strict: whatever the header says is held
// against the bytes that are there. Who calls: tern-codec, tern-aggregator, and trainers of
// tern-client. Pure but for the heap; reentrant.
#ifndef TERN_SAFETENSORS_H
#define TERN_SAFETENSORS_H

#include "result.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_SAFETENSORS_LENGTH_BYTES 8
#define TERN_SAFETENSORS_WHY_MAX 512 // bytes of a sentence with the terminating NUL

// How a tensor's values are stored, where they can be read as float32.
enum tern_safetensors_kind {
    TERN_SAFETENSORS_OTHER,
    TERN_SAFETENSORS_F32,
    TERN_SAFETENSORS_F16,
    TERN_SAFETENSORS_BF16,
};

struct tern_safetensors_entry {
    const char *name;  // text without control characters
    const char *dtype; // as the header has it: "F32"
    char *shape;       // "[128,784]"
    const cJSON *dims; // the same, as numbers
    enum tern_safetensors_kind kind;
    unsigned width;  // bytes of a value; 0: the dtype is not known here
    uint64_t count;  // values: the product of the shape
    uint64_t offset; // of its data in the file
    uint64_t data_len;
    const uint8_t *data; // NULL: only the head of the file was read
};

// The tensors in the order of their data.
struct tern_safetensors {
    cJSON *header;
    const cJSON *metadata; // "__metadata__": an object of texts, or NULL
    struct tern_safetensors_entry *entries;
    size_t count;
};

// --- Reading

// Whether a file looks like safetensors: a header length that fits, and a "{" behind it.
bool tern_safetensors_looks_like(const uint8_t *bytes, size_t len);

// Reads the header of a whole file, which is borrowed until tern_safetensors_free(). Sizes must
// match dtype and shape, data must lie side by side and fill the file, names must differ, metadata
// be texts.
// TERN_ERR_CORRUPT    not so; `why` says what and where
// TERN_ERR_TOO_LARGE  the header is over the limit
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_parse(const uint8_t *bytes, size_t len,
                                                      struct tern_safetensors *file,
                                                      char why[TERN_SAFETENSORS_WHY_MAX]);

// The same for a file of file_len bytes of which head[0..head_len) is there: its first
// TERN_SAFETENSORS_LENGTH_BYTES, and as many behind them as tern_get_le64() reads there.
TERN_MUST_USE enum tern_result tern_safetensors_parse_head(const uint8_t *head, size_t head_len,
                                                           uint64_t file_len,
                                                           struct tern_safetensors *file,
                                                           char why[TERN_SAFETENSORS_WHY_MAX]);

void tern_safetensors_free(struct tern_safetensors *file);

// Converts the values of a tensor that is not TERN_SAFETENSORS_OTHER to float32, which is exact.
void tern_safetensors_floats(const struct tern_safetensors_entry *entry, float *values);

// Likewise `count` values of such a kind, wherever they were read.
void tern_safetensors_convert(enum tern_safetensors_kind kind, const uint8_t *bytes, size_t count,
                              float *values);

// The shape as numbers, 1 value for none. False: more than `most` dimensions, or one above 2^32
// - 1.
bool tern_safetensors_dims(const struct tern_safetensors_entry *entry, uint32_t *dims,
                           uint32_t most, uint32_t *dim_count);

// --- Writing

struct tern_safetensors_tensor {
    const char *name;
    const char *shape; // "[128,784]"
    const float *values;
    size_t count;
    const struct tern_safetensors_entry *as_read; // not NULL: its bytes and dtype, no values
};

// Writes an entry as it was read; borrows it.
struct tern_safetensors_tensor tern_safetensors_as_read(const struct tern_safetensors_entry *entry);

// Makes a whole file in memory, the tensors in their order. Their data are aligned to 8 bytes,
// those of wide types first, so that each value lies at a multiple of its width, which some readers
// need. metadata: an object of texts, or NULL. kind: any but TERN_SAFETENSORS_OTHER; F16 and BF16
// are rounded to nearest, ties to even. *bytes: malloc'ed, the caller's.
// TERN_ERR_NON_FINITE  a value is not finite, or too large for the kind; `why` names its tensor.
//                      F32 takes any value.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_make(const struct tern_safetensors_tensor *tensors,
                                                     size_t count, const cJSON *metadata,
                                                     enum tern_safetensors_kind kind,
                                                     uint8_t **bytes, size_t *len,
                                                     char why[TERN_SAFETENSORS_WHY_MAX]);

#define TERN_SAFETENSORS_SHAPE_MAX (12 * TERN_TENSOR_MAX_DIMS + 4)

// The shape of a model's tensor as a file has it; returns text.
const char *tern_safetensors_shape(const struct tern_tensor *tensor,
                                   char text[TERN_SAFETENSORS_SHAPE_MAX]);

// The same for weights[0..model->count) in layout order, the tensors in manifest order: a file that
// a model was made of comes out in its own order. kept: a file whose tensors follow as they were
// read, or NULL.
TERN_MUST_USE enum tern_result
tern_safetensors_make_model(const struct tern_model *model, const float *weights,
                            const struct tern_safetensors *kept, const cJSON *metadata,
                            enum tern_safetensors_kind kind, uint8_t **bytes, size_t *len,
                            char why[TERN_SAFETENSORS_WHY_MAX]);

// The bytes of a model's file of F32 up to its values, which follow as little-endian float32, of the
// tensors in manifest order. *bytes: malloc'ed, the caller's. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_make_model_head(const struct tern_model *model,
                                                                uint8_t **bytes, size_t *len,
                                                                char why[TERN_SAFETENSORS_WHY_MAX]);

// "F32", "F16", "BF16", in any case. False: none of these.
bool tern_safetensors_kind_from_name(const char *name, enum tern_safetensors_kind *kind);

#endif
