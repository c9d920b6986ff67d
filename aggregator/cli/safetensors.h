// Writes weights as a .safetensors file: eight bytes of header length, a JSON header with name,
// dtype, shape and place of every tensor, then the float32 data. Caller owns all memory; reentrant.
#ifndef TERN_SAFETENSORS_H
#define TERN_SAFETENSORS_H

#include "result.h"
#include "tensor/model.h"

// One entry of the header's "__metadata__".
struct tern_safetensors_note {
    const char *key;
    const char *value;
};

// Makes the whole file in memory. notes: ended by a NULL key. *data: malloc'ed, the caller's.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_safetensors_encode(const struct tern_model *model,
                                                       const float *weights,
                                                       const struct tern_safetensors_note *notes,
                                                       uint8_t **data, size_t *len);

#endif
