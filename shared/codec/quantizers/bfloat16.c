// The codec bfloat16: the high half of a float32, rounded to the nearest, ties to even.
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"

// Magnitudes up to this one round to 0.
#define HALF_OF_SMALLEST 0x1p-134f

enum {
    BFLOAT16_INFINITY = 0x7f80,
    OVERFLOW_BITS = 0x7f7f8000 // bits of the smallest float32 that rounds to infinity
};

static size_t bfloat16_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return 1 + 2 * count;
}

static enum tern_result bfloat16_check_peak(const struct tern_codec *codec, float peak)
{
    (void)codec;
    return tern_float_bits(peak) < OVERFLOW_BITS ? TERN_OK : TERN_ERR_NON_FINITE;
}

static size_t bfloat16_encode(const struct tern_encode_job *job)
{
    if (job->peak <= HALF_OF_SMALLEST) {
        return 0;
    }
    job->dst[0] = TERN_MODE_BFLOAT16;
    tern_kernel_bfloat16_put(job->values, job->count, job->dst + 1);
    return bfloat16_bound(job->codec, job->count);
}

static enum tern_result bfloat16_check(const uint8_t *body, size_t len, size_t count)
{
    if (len % 2 != 0 || len / 2 != count) {
        return TERN_ERR_CORRUPT;
    }
    return tern_kernel_bfloat16_peak(body, count) < BFLOAT16_INFINITY ? TERN_OK
                                                                      : TERN_ERR_NON_FINITE;
}

static void bfloat16_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)len;
    tern_kernel_bfloat16_get(body, dst, count);
}

static void bfloat16_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                                size_t count)
{
    (void)len;
    tern_kernel_bfloat16_add(body, weight, acc, count);
}

static void bfloat16_describe(const uint8_t *body, size_t len, size_t count,
                              struct tern_codec_info *info)
{
    (void)len;
    for (size_t i = 0; i < count; i++) {
        tern_describe_value(info, tern_bits_float((uint32_t)tern_get_le16(body + 2 * i) << 16));
    }
}

static const struct tern_mode mode = {
    .byte = TERN_MODE_BFLOAT16,
    .name = "bfloat16",
    .check = bfloat16_check,
    .decode = bfloat16_decode,
    .accumulate = bfloat16_accumulate,
    .describe = bfloat16_describe,
};

// --- The codec

static const struct tern_spec_parameter parameters[] = {TERN_LAST_PARAMETER};

const struct tern_codec_row tern_bfloat16_codec = {
    .entry = {.id = TERN_CODEC_BFLOAT16,
              .name = "bfloat16",
              .summary = TERN_HELP("the high half of a float32"),
              .source = TERN_HELP("bfloat16 of Google Brain"),
              .good_for = TERN_HELP("half the bytes, for values of any size"),
              .not_for = TERN_HELP("values that differ by less than 1 in 256; int8 takes fewer "
                                   "bytes if it is accurate enough"),
              .feedback = TERN_FEEDBACK_ERROR,
              .parameters = parameters},
    .bound = bfloat16_bound,
    .check = bfloat16_check_peak,
    .encode = bfloat16_encode,
    .modes = {&mode},
};

const struct tern_codec_plan tern_bfloat16_plan = {
    .fixed_bits = 16.0,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_always,
};
