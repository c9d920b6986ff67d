// The codec float32: unchanged values.
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"
#include <string.h>

static size_t float32_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return 1 + 4 * count;
}

static size_t float32_encode(const struct tern_encode_job *job)
{
    job->dst[0] = TERN_MODE_FLOAT32;
    tern_kernel_float32_put(job->values, job->count, job->dst + 1);
    memset(job->values, 0, job->count * sizeof *job->values);
    return float32_bound(job->codec, job->count);
}

static enum tern_result float32_check(const uint8_t *body, size_t len, size_t count)
{
    // Divides, because 4 * count may not fit a size_t.
    if (len % 4 != 0 || len / 4 != count) {
        return TERN_ERR_CORRUPT;
    }
    return tern_kernel_peak_bytes(body, count) < TERN_INFINITY_BITS ? TERN_OK : TERN_ERR_NON_FINITE;
}

static void float32_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)len;
    tern_kernel_float32_get(body, dst, count);
}

static void float32_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                               size_t count)
{
    (void)len;
    tern_kernel_float32_add(body, weight, acc, count);
}

#define SUMS 8
#define CHUNK (32 * SUMS)

// Adds up the squares in several independent sums, which the processor computes in parallel, and then these in a fixed order, so
// that all platforms get the same bits.
static void describe_values(const uint8_t *body, size_t count, struct tern_codec_info *info)
{
    double sums[SUMS] = {0.0};
    uint32_t nonzero[SUMS] = {0};
    float values[CHUNK];
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? count - at : CHUNK;
        tern_kernel_float32_get(body + sizeof(float) * at, values, n);
        memset(values + n, 0, (CHUNK - n) * sizeof values[0]);
        for (size_t i = 0; i < CHUNK; i += SUMS) {
            for (size_t k = 0; k < SUMS; k++) {
                nonzero[k] += values[i + k] != 0;
                sums[k] += (double)values[i + k] * (double)values[i + k];
            }
        }
    }
    for (size_t k = 0; k < SUMS; k++) {
        info->nonzero += nonzero[k];
        info->sum_square += sums[k];
    }
}

static void float32_describe(const uint8_t *body, size_t len, size_t count,
                             struct tern_codec_info *info)
{
    (void)len;
    info->maximum = tern_bits_float(tern_kernel_peak_bytes(body, count));
    if (TERN_FOR_PEOPLE) {
        describe_values(body, count, info);
    }
}

static const struct tern_mode mode = {
    .byte = TERN_MODE_FLOAT32,
    .name = "float32",
    .check = float32_check,
    .decode = float32_decode,
    .accumulate = float32_accumulate,
    .describe = float32_describe,
};

// --- The codec

static const struct tern_spec_parameter parameters[] = {TERN_LAST_PARAMETER};

const struct tern_codec_row tern_float32_codec = {
    .entry = {.id = TERN_CODEC_FLOAT32,
              .name = "float32",
              .summary = TERN_HELP("unchanged values"),
              .source = TERN_HELP("IEEE 754 binary32"),
              .good_for =
                  TERN_HELP("measuring the loss of other codecs, free links, models of a few "
                            "hundred values"),
              .not_for = TERN_HELP("metered links: int8 takes a quarter of the bytes without a "
                                   "measurable loss"),
              .feedback = TERN_FEEDBACK_ERROR,
              .parameters = parameters},
    .bound = float32_bound,
    .encode = float32_encode,
    .modes = {&mode},
};

const struct tern_codec_plan tern_float32_plan = {
    .fixed_bits = 32.0,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_always,
};
