// Reads and writes the safetensors files that PyTorch users have
// (https://huggingface.co/docs/safetensors): 8 bytes little-endian length of the header, the header
// as JSON, the data of all tensors. Reading checks every field of the header against the file.
// Called by tern-codec, tern-aggregator, and trainers of tern-client. Allocates memory; reentrant.
#ifndef TERN_SAFETENSORS_H
#define TERN_SAFETENSORS_H

#include "result.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_SAFETENSORS_LENGTH_BYTES 8
#define TERN_SAFETENSORS_WHY_MAX 512 // bytes of an error message with the terminating NUL

// The dtypes whose values can be read as float32; OTHER for the rest.
enum tern_safetensors_kind {
    TERN_SAFETENSORS_OTHER,
    TERN_SAFETENSORS_F32,
    TERN_SAFETENSORS_F16,
    TERN_SAFETENSORS_BF16,
};

struct tern_safetensors_entry {
    const char *name;  // text without control characters
    const char *dtype; // text from the header, e.g. "F32"
    char *shape;       // "[128,784]"
    const cJSON *dims; // the shape as JSON numbers
    enum tern_safetensors_kind kind;
    unsigned width;  // bytes of a value; 0: unknown dtype
    uint64_t count;  // values: the product of the shape
    uint64_t offset; // of its data in the file
    uint64_t data_len;
    const uint8_t *data; // NULL: only the header was read
};

// A parsed file. Entries are in the order of their data.
struct tern_safetensors {
    cJSON *header;
    const cJSON *metadata; // "__metadata__": an object whose values are strings
    struct tern_safetensors_entry *entries;
    size_t count;
};

// --- Reading

// Returns true if the bytes start like a safetensors file: with a plausible header length and a
// "{".
bool tern_safetensors_looks_like(const uint8_t *bytes, size_t len);

// Parses the header of a file in memory, which must stay valid until tern_safetensors_free(). Sizes
// must match dtype and shape, data must be contiguous and fill the file, names must differ, and
// metadata must be text.
// TERN_ERR_CORRUPT    a rule is violated; `why` has the place and the rule
// TERN_ERR_TOO_LARGE  the header exceeds its limit
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_parse(const uint8_t *bytes, size_t len,
                                                      struct tern_safetensors *file,
                                                      char why[TERN_SAFETENSORS_WHY_MAX]);

// Like tern_safetensors_parse(), for a file of file_len bytes of which only the length field and
// the header are in memory: head[0..head_len). The length field has TERN_SAFETENSORS_LENGTH_BYTES;
// tern_get_le64() of it is the length of the header.
TERN_MUST_USE enum tern_result tern_safetensors_parse_head(const uint8_t *head, size_t head_len,
                                                           uint64_t file_len,
                                                           struct tern_safetensors *file,
                                                           char why[TERN_SAFETENSORS_WHY_MAX]);

void tern_safetensors_free(struct tern_safetensors *file);

// Converts the values of a tensor to float32, which is exact. Not for TERN_SAFETENSORS_OTHER.
void tern_safetensors_floats(const struct tern_safetensors_entry *entry, float *values);

// Like tern_safetensors_floats(), for `count` values of that dtype at `bytes`.
void tern_safetensors_convert(enum tern_safetensors_kind kind, const uint8_t *bytes, size_t count,
                              float *values);

// Writes the shape to dims; a shape without dimensions becomes [1]. Returns false for more than
// `most` dimensions or a dimension above 2^32 - 1.
bool tern_safetensors_dims(const struct tern_safetensors_entry *entry, uint32_t *dims,
                           uint32_t most, uint32_t *dim_count);

// --- Writing

struct tern_safetensors_tensor {
    const char *name;
    const char *shape; // "[128,784]"
    const float *values;
    size_t count;
    const struct tern_safetensors_entry *as_read; // has bytes and dtype; NULL: `values`
};

// Returns a tensor that writes an entry unchanged. Borrows the entry.
struct tern_safetensors_tensor tern_safetensors_as_read(const struct tern_safetensors_entry *entry);

// Makes a file in memory. The header lists the tensors in the order given. Data start at a multiple
// of 8 bytes and are sorted by width, so that each value is aligned, as some readers require.
// metadata: an object of strings, or NULL. kind: not TERN_SAFETENSORS_OTHER; F16 and BF16 round to
// nearest, ties to even. *bytes: malloc'ed, owned by the caller.
// TERN_ERR_NON_FINITE  a value is not finite or too large for F16 or BF16; `why` has its tensor
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_make(const struct tern_safetensors_tensor *tensors,
                                                     size_t count, const cJSON *metadata,
                                                     enum tern_safetensors_kind kind,
                                                     uint8_t **bytes, size_t *len,
                                                     char why[TERN_SAFETENSORS_WHY_MAX]);

#define TERN_SAFETENSORS_SHAPE_MAX (12 * TERN_TENSOR_MAX_DIMS + 4)

// Writes the shape of a model's tensor as in a file's header, "[128,784]"; returns text.
const char *tern_safetensors_shape(const struct tern_tensor *tensor,
                                   char text[TERN_SAFETENSORS_SHAPE_MAX]);

// Like tern_safetensors_make(), for weights[0..model->count) in layout order. Writes the tensors in
// manifest order, which for an imported model is the order of its file. kept: a file whose tensors
// are appended unchanged, or NULL.
TERN_MUST_USE enum tern_result
tern_safetensors_make_model(const struct tern_model *model, const float *weights,
                            const struct tern_safetensors *kept, const cJSON *metadata,
                            enum tern_safetensors_kind kind, uint8_t **bytes, size_t *len,
                            char why[TERN_SAFETENSORS_WHY_MAX]);

// Makes the length field and header of a model's F32 file. The caller appends the values as
// little-endian float32, tensors in manifest order. *bytes: malloc'ed, owned by the caller.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_make_model_head(const struct tern_model *model,
                                                                uint8_t **bytes, size_t *len,
                                                                char why[TERN_SAFETENSORS_WHY_MAX]);

// Parses "F32", "F16" or "BF16", in upper or lower case. Returns false for any other name.
bool tern_safetensors_kind_from_name(const char *name, enum tern_safetensors_kind *kind);

#endif
