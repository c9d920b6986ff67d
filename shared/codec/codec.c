#include "codec/codec.h"

#include "codec/kernels/kernels.h"
#include "codec/modes.h"
#include <string.h>

// --- Mode zero: the mode byte alone, every value is +0
// ----------------------------------------------

static enum tern_result zero_check(const uint8_t *body, size_t len, size_t count)
{
    (void)body;
    (void)count;
    return len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

static void zero_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)body;
    (void)len;
    if (count > 0) {
        memset(dst, 0, count * sizeof *dst);
    }
}

static void zero_accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    (void)body;
    (void)len;
    (void)weight;
    (void)acc;
    (void)count;
}

static void zero_describe(const uint8_t *body, size_t len, size_t count,
                          struct tern_codec_info *info)
{
    (void)body;
    (void)len;
    (void)count;
    (void)info;
}

static const struct tern_mode zero_mode = {
    .byte = TERN_MODE_ZERO,
    .id = TERN_CODEC_FLOAT32,
    .name = "zero",
    .check = zero_check,
    .decode = zero_decode,
    .accumulate = zero_accumulate,
    .describe = zero_describe,
};

// --- The tables
// ----------------------------------------------------------------------------------------

static const struct tern_mode *const modes[] = {
    &zero_mode,
    &tern_float32_mode,
    &tern_float16_mode,
    &tern_3lc_planar_runs_mode,
    &tern_3lc_planar_packed_mode,
};

static const struct tern_encoder *const encoders[] = {
    [TERN_CODEC_FLOAT32] = &tern_float32_encoder,
    [TERN_CODEC_FLOAT16] = &tern_float16_encoder,
    [TERN_CODEC_3LC] = &tern_3lc_encoder,
};

const struct tern_encoder *tern_encoder_of(const struct tern_codec *codec)
{
    size_t id = (size_t)codec->id;
    return id < sizeof encoders / sizeof encoders[0] ? encoders[id] : NULL;
}

static const struct tern_mode *mode_of(uint8_t byte)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (modes[i]->byte == byte) {
            return modes[i];
        }
    }
    return NULL;
}

// --- Encoding
// ------------------------------------------------------------------------------------------

size_t tern_codec_bound(const struct tern_codec *codec, size_t count)
{
    const struct tern_encoder *encoder = tern_encoder_of(codec);
    return encoder != NULL ? encoder->bound(count) : 0;
}

enum tern_result tern_codec_check(const struct tern_codec *codec, const float *values, size_t count,
                                  float *peak)
{
    uint32_t bits = tern_kernel_peak(values, count);
    if (bits >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    *peak = tern_bits_float(bits);
    return tern_encoder_of(codec)->check(codec, *peak);
}

size_t tern_codec_emit(const struct tern_codec *codec, float peak, float *values, size_t count,
                       uint8_t *dst)
{
    size_t written = 0;
    if (peak > 0) {
        written = tern_encoder_of(codec)->encode(codec, peak, values, count, dst);
    }
    if (written == 0) {
        dst[0] = TERN_MODE_ZERO;
        written = 1;
    }
    return written;
}

enum tern_result tern_codec_encode(const struct tern_codec *codec, float *values, size_t count,
                                   uint8_t *dst, size_t dst_size, size_t *written)
{
    if (tern_encoder_of(codec) == NULL) {
        return TERN_ERR_UNKNOWN;
    }
    if (dst_size < tern_codec_bound(codec, count)) {
        return TERN_ERR_NO_SPACE;
    }
    float peak = 0;
    TERN_TRY(tern_codec_check(codec, values, count, &peak));
    *written = tern_codec_emit(codec, peak, values, count, dst);
    return TERN_OK;
}

// --- Decoding
// ------------------------------------------------------------------------------------------

enum tern_result tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                    const struct tern_mode **mode)
{
    if (src_len == 0) {
        return TERN_ERR_CORRUPT;
    }
    *mode = mode_of(src[0]);
    return *mode != NULL ? (*mode)->check(src + 1, src_len - 1, count) : TERN_ERR_UNKNOWN;
}

enum tern_result tern_codec_decode(const uint8_t *src, size_t src_len, float *dst, size_t count)
{
    const struct tern_mode *mode = NULL;
    TERN_TRY(tern_payload_check(src, src_len, count, &mode));
    mode->decode(src + 1, src_len - 1, dst, count);
    return TERN_OK;
}

enum tern_result tern_codec_accumulate(const uint8_t *src, size_t src_len, float weight, float *acc,
                                       size_t count)
{
    const struct tern_mode *mode = NULL;
    TERN_TRY(tern_payload_check(src, src_len, count, &mode));
    mode->accumulate(src + 1, src_len - 1, weight, acc, count);
    return TERN_OK;
}

void tern_payload_describe(const struct tern_mode *mode, const uint8_t *src, size_t src_len,
                           size_t count, struct tern_codec_info *info)
{
    *info = (struct tern_codec_info){.id = mode->id, .mode = mode->name};
    mode->describe(src + 1, src_len - 1, count, info);
}

enum tern_result tern_codec_inspect(const uint8_t *src, size_t src_len, size_t count,
                                    struct tern_codec_info *info)
{
    const struct tern_mode *mode = NULL;
    TERN_TRY(tern_payload_check(src, src_len, count, &mode));
    tern_payload_describe(mode, src, src_len, count, info);
    return TERN_OK;
}
