// The codec int8: whole multiples of the largest magnitude / 127. The "8-bit int" baseline of 3LC (Lim, Andersen, Kaminsky,
// MLSys 2019, section 5.1).
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"

enum { LEVELS = 127, SCALE_BYTES = 4, HEAD = 1 + SCALE_BYTES };

static bool overflows(float scale)
{
    return tern_float_bits(LEVELS * scale) >= TERN_INFINITY_BITS;
}

static size_t int8_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return HEAD + count;
}

// 127 times a scale that was rounded up may exceed float32.
static enum tern_result int8_check_peak(const struct tern_codec *codec, float peak)
{
    (void)codec;
    return overflows(peak / LEVELS) ? TERN_ERR_NON_FINITE : TERN_OK;
}

static size_t int8_encode(const struct tern_encode_job *job)
{
    float scale = job->peak / LEVELS;
    if (scale == 0) {
        return 0;
    }
    job->dst[0] = TERN_MODE_INT8;
    tern_put_f32(job->dst + 1, scale);
    tern_kernel_int8_put(job->values, job->count, scale, job->dst + HEAD);
    return HEAD + job->count;
}

static enum tern_result int8_check(const uint8_t *body, size_t len, size_t count)
{
    if (len < SCALE_BYTES || len - SCALE_BYTES != count) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t bits = tern_get_le32(body);
    // A negative scale fails, too: as unsigned numbers its bits are above infinity.
    if (bits >= TERN_INFINITY_BITS || overflows(tern_bits_float(bits))) {
        return TERN_ERR_NON_FINITE;
    }
    bool valid = bits > 0 && tern_kernel_int8_lowest(body + SCALE_BYTES, count) >= -LEVELS;
    return valid ? TERN_OK : TERN_ERR_CORRUPT;
}

static void int8_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)len;
    tern_kernel_int8_get(body + SCALE_BYTES, tern_get_f32(body), dst, count);
}

static void int8_accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    (void)len;
    tern_kernel_int8_add(body + SCALE_BYTES, tern_get_f32(body), weight, acc, count);
}

static void int8_describe(const uint8_t *body, size_t len, size_t count,
                          struct tern_codec_info *info)
{
    (void)len;
    info->scale = tern_get_f32(body);
    for (size_t i = 0; i < count; i++) {
        tern_describe_value(info, (float)(int8_t)body[SCALE_BYTES + i] * info->scale);
    }
}

static const struct tern_mode mode = {
    .byte = TERN_MODE_INT8,
    .name = "int8",
    .check = int8_check,
    .decode = int8_decode,
    .accumulate = int8_accumulate,
    .describe = int8_describe,
};

// --- The codec

static const struct tern_spec_parameter parameters[] = {TERN_LAST_PARAMETER};

const struct tern_codec_row tern_int8_codec = {
    .entry =
        {.id = TERN_CODEC_INT8,
         .name = "int8",
         .summary = TERN_HELP("multiples of the largest magnitude / 127"),
         .source =
             TERN_HELP("\"8-bit int\" of Lim, Andersen, Kaminsky: 3LC, MLSys 2019, section 5.1"),
         .good_for = TERN_HELP("a quarter of the bytes without a measurable loss; slow devices"),
         .not_for = TERN_HELP(
             "tensors with one value far larger than all others, which round to 0 and wait in the "
             "error buffer; clients that are selected once, whose buffer is never sent"),
         .feedback = TERN_FEEDBACK_ERROR,
         .parameters = parameters},
    .bound = int8_bound,
    .check = int8_check_peak,
    .encode = int8_encode,
    .modes = {&mode},
};

const struct tern_codec_plan tern_int8_plan = {
    .fixed_bits = 8.0,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_always,
};
