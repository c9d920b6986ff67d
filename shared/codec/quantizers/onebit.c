// The codec onebit: the sign of each value, and the means of the positive and the negative values. 1-bit SGD (Seide, Fu, Droppo,
// Li, Yu, Interspeech 2014, section 3), "MQE 1-bit int" in the 3LC paper. One pair of means per segment; the paper has one per
// column of a weight matrix.
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"

enum { MEANS_BYTES = 8, HEAD = 1 + MEANS_BYTES };

static struct tern_two_means means_of(const uint8_t *body)
{
    return (struct tern_two_means){.positive = tern_get_f32(body),
                                   .negative = tern_get_f32(body + 4)};
}

static size_t onebit_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return HEAD + tern_bitmap_bytes(count);
}

static size_t onebit_encode(const struct tern_encode_job *job)
{
    struct tern_two_means means = tern_kernel_onebit_means(job->values, job->count);
    // Both are 0 only for subnormals so small that their means round to 0.
    if (means.positive == 0 && means.negative == 0) {
        return 0;
    }
    job->dst[0] = TERN_MODE_ONEBIT;
    tern_put_f32(job->dst + 1, means.positive);
    tern_put_f32(job->dst + 5, means.negative);
    tern_kernel_onebit_put(job->values, job->count, means, job->dst + HEAD);
    return onebit_bound(job->codec, job->count);
}

static enum tern_result onebit_check(const uint8_t *body, size_t len, size_t count)
{
    if (len < MEANS_BYTES || len - MEANS_BYTES != tern_bitmap_bytes(count)) {
        return TERN_ERR_CORRUPT;
    }
    // A negative mean fails, too: as unsigned numbers its bits are above infinity.
    if (tern_get_le32(body) >= TERN_INFINITY_BITS ||
        tern_get_le32(body + 4) >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    bool padded = count % 8 == 0 || body[len - 1] >> count % 8 == 0;
    return padded ? TERN_OK : TERN_ERR_CORRUPT;
}

static void onebit_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    (void)len;
    tern_kernel_onebit_get(body + MEANS_BYTES, means_of(body), dst, count);
}

static void onebit_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                              size_t count)
{
    (void)len;
    tern_kernel_onebit_add(body + MEANS_BYTES, means_of(body), weight, acc, count);
}

// Adds the facts of `count` values of one magnitude.
static void describe_side(struct tern_codec_info *info, float mean, size_t count)
{
    if (mean > 0 && count > 0) {
        info->nonzero += count;
        info->sum_square += (double)count * ((double)mean * (double)mean);
        info->maximum = mean > info->maximum ? mean : info->maximum;
    }
}

static void onebit_describe(const uint8_t *body, size_t len, size_t count,
                            struct tern_codec_info *info)
{
    struct tern_two_means means = means_of(body);
    size_t negatives = 0;
    for (size_t i = MEANS_BYTES; i < len; i++) {
        for (unsigned left = body[i]; left != 0; left &= left - 1) {
            negatives++;
        }
    }
    describe_side(info, means.positive, count - negatives);
    describe_side(info, means.negative, negatives);
    info->scale = means.positive > means.negative ? means.positive : means.negative;
}

static const struct tern_mode mode = {
    .byte = TERN_MODE_ONEBIT,
    .name = "onebit",
    .check = onebit_check,
    .decode = onebit_decode,
    .accumulate = onebit_accumulate,
    .describe = onebit_describe,
};

// --- The codec

static const struct tern_spec_parameter parameters[] = {TERN_LAST_PARAMETER};

const struct tern_codec_row tern_onebit_codec = {
    .entry = {.id = TERN_CODEC_ONEBIT,
              .name = "onebit",
              .summary = TERN_HELP("signs, and the means of the positive and the negative values"),
              .source =
                  TERN_HELP("Seide, Fu, Droppo, Li, Yu: 1-bit SGD, Interspeech 2014, section 3"),
              .good_for = TERN_HELP("one bit per value and little processor time, for any values"),
              .not_for = TERN_HELP("most links: 3lc takes fewer bytes and is more accurate"),
              .feedback = TERN_FEEDBACK_ERROR,
              .parameters = parameters},
    .bound = onebit_bound,
    .encode = onebit_encode,
    .modes = {&mode},
};

const struct tern_codec_plan tern_onebit_plan = {
    .fixed_bits = 1.0,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_always,
};
