// The error buffer of 3LC (section 3.1): what compression has not yet sent. A client has one for
// its uploads. Conservation: sum of inputs = sum of decoded payloads + buffer, within the float32
// rounding of the additions. Pure; the caller owns the values; reentrant.
#ifndef TERN_ERROR_BUFFER_H
#define TERN_ERROR_BUFFER_H

#include "codec/container.h"

struct tern_error_buffer {
    float *values;  // count floats, borrowed
    uint32_t count; // = model->count
};

// What the error ledger records of a buffer.
struct tern_error_facts {
    float norm;    // Euclidean, accumulated in float64 in index order; at most FLT_MAX
    float maximum; // largest magnitude
};

// buffer[i] += change[i]. TERN_ERR_NON_FINITE when any sum is not finite; the buffer is then
// unchanged.
TERN_MUST_USE enum tern_result tern_error_buffer_add(struct tern_error_buffer *buffer,
                                                     const float *change);

// Takes an update out of the buffer: encodes it, leaving what was not sent. On error the buffer is
// unchanged. Errors of tern_container_encode().
TERN_MUST_USE enum tern_result tern_error_buffer_take(struct tern_error_buffer *buffer,
                                                      const struct tern_codec *codec,
                                                      const struct tern_encode_context *context,
                                                      const struct tern_model *model, uint8_t *dst,
                                                      size_t dst_size, size_t *written);

// Gives an update that was not applied back: buffer += decoded. On error the buffer is unchanged.
TERN_MUST_USE enum tern_result tern_error_buffer_give_back(struct tern_error_buffer *buffer,
                                                           const struct tern_model *model,
                                                           const uint8_t *container, size_t len);

// buffer *= gamma, 0 <= gamma <= 1; 0 resets it. TERN_ERR_ARGUMENT outside that range.
TERN_MUST_USE enum tern_result tern_error_buffer_decay(struct tern_error_buffer *buffer,
                                                       float gamma);

struct tern_error_facts tern_error_buffer_facts(const struct tern_error_buffer *buffer);

#endif
