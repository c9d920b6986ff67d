// The codec float16: IEEE 754 binary16 ("half"), rounded to the nearest, ties to even.
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"

// Magnitudes up to this one round to 0.
#define HALF_OF_SMALLEST 0x1p-25f

enum { HALF_INFINITY = 0x7c00 };

static size_t float16_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return 1 + 2 * count;
}

static enum tern_result float16_check_peak(const struct tern_codec *codec, float peak)
{
    (void)codec;
    return peak < TERN_HALF_LIMIT ? TERN_OK : TERN_ERR_NON_FINITE;
}

static size_t float16_encode(const struct tern_encode_job *job)
{
    if (job->peak <= HALF_OF_SMALLEST) {
        return 0;
    }
    job->dst[0] = TERN_MODE_FLOAT16;
    tern_kernel_float16_put(job->values, job->count, job->dst + 1);
    return float16_bound(job->codec, job->count);
}

static enum tern_result float16_check(const uint8_t *body, size_t len, size_t count)
{
    if (len % 2 != 0 || len / 2 != count) {
        return TERN_ERR_CORRUPT;
    }
    return tern_kernel_float16_peak(body, count) < HALF_INFINITY ? TERN_OK : TERN_ERR_NON_FINITE;
}

static void float16_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)len;
    tern_kernel_float16_get(body, dst, count);
}

static void float16_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                               size_t count)
{
    (void)len;
    tern_kernel_float16_add(body, weight, acc, count);
}

static void float16_describe(const uint8_t *body, size_t len, size_t count,
                             struct tern_codec_info *info)
{
    (void)len;
    for (size_t i = 0; i < count; i++) {
        float value = 0;
        tern_kernel_float16_get(body + 2 * i, &value, 1);
        tern_describe_value(info, value);
    }
}

static const struct tern_mode mode = {
    .byte = TERN_MODE_FLOAT16,
    .name = "float16",
    .check = float16_check,
    .decode = float16_decode,
    .accumulate = float16_accumulate,
    .describe = float16_describe,
};

// --- The codec

static const struct tern_spec_parameter parameters[] = {TERN_LAST_PARAMETER};

const struct tern_codec_row tern_float16_codec = {
    .entry = {.id = TERN_CODEC_FLOAT16,
              .name = "float16",
              .summary = TERN_HELP("half precision"),
              .source = TERN_HELP("IEEE 754 binary16"),
              .good_for = TERN_HELP("half the bytes with a relative precision of 1 in 2048; values "
                                    "up to 65504"),
              .not_for = TERN_HELP("values of very different sizes (use bfloat16); int8 and 3lc "
                                   "take fewer bytes if they are accurate enough"),
              .feedback = TERN_FEEDBACK_ERROR,
              .parameters = parameters},
    .bound = float16_bound,
    .check = float16_check_peak,
    .encode = float16_encode,
    .modes = {&mode},
};

const struct tern_codec_plan tern_float16_plan = {
    .fixed_bits = 16.0,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_always,
};
