#include "error_feedback/error_buffer.h"

#include "codec/kernels/kernels.h"
#include "util/sqrt.h"
#include <float.h>
#include <string.h>

// Bits of the largest magnitude among the sums; NaN and infinity are above all others.
static uint32_t peak_of_sums(const float *a, const float *b, uint32_t count)
{
    uint32_t peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t magnitude = tern_float_bits(a[i] + b[i]) & ~TERN_SIGN_BIT;
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

enum tern_result tern_error_buffer_add(struct tern_error_buffer *buffer, const float *change)
{
    if (peak_of_sums(buffer->values, change, buffer->count) >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    for (uint32_t i = 0; i < buffer->count; i++) {
        buffer->values[i] += change[i];
    }
    return TERN_OK;
}

enum tern_result tern_error_buffer_take(struct tern_error_buffer *buffer,
                                        const struct tern_codec *codec,
                                        const struct tern_encode_context *context,
                                        const struct tern_model *model, uint8_t *dst,
                                        size_t dst_size, size_t *written)
{
    return tern_container_encode(codec, context, model, buffer->values, dst, dst_size, written);
}

enum tern_result tern_error_buffer_give_back(struct tern_error_buffer *buffer,
                                             const struct tern_model *model,
                                             const uint8_t *container, size_t len)
{
    return tern_container_accumulate(model, container, len, 1, buffer->values);
}

enum tern_result tern_error_buffer_decay(struct tern_error_buffer *buffer, float gamma)
{
    if (!(gamma >= 0 && gamma <= 1)) {
        return TERN_ERR_ARGUMENT;
    }
    if (gamma == 0) {
        memset(buffer->values, 0, buffer->count * sizeof *buffer->values);
        return TERN_OK;
    }
    for (uint32_t i = 0; i < buffer->count; i++) {
        buffer->values[i] *= gamma;
    }
    return TERN_OK;
}

struct tern_error_facts tern_error_buffer_facts(const struct tern_error_buffer *buffer)
{
    double sum = 0;
    for (uint32_t i = 0; i < buffer->count; i++) {
        double value = (double)buffer->values[i];
        sum += value * value;
    }
    double norm = tern_sqrt(sum);
    return (struct tern_error_facts){
        .norm = norm < (double)FLT_MAX ? (float)norm : FLT_MAX,
        .maximum = tern_bits_float(tern_kernel_peak(buffer->values, buffer->count)),
    };
}
