// QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017): buckets of values share a scale
// (section 4; the L2 norm of section 3.1 or the largest magnitude), each magnitude is rounded at
// random to one of s levels so that its expectation is exact (section 3.1), and nothing is fed
// back.
#include "codec/quantizers/qsgd.h"
#include "codec/kernels/kernels.h"
#include "codec/kernels/levels.h"
#include "codec/quantizers/random.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"
#include "util/sqrt.h"

enum { SCALE_BYTES = 4, DRAWS_AT_ONCE = 256 };

// The mode byte, and the two numbers of the head.
enum { HEAD_MOST = 1 + 2 * TERN_VARINT_MAX };

// Norms of 2^28 values of the largest magnitude are finite below FLT_MAX / this.
#define NORM_MOST 0x1p14f

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t buckets_of(size_t count, size_t bucket)
{
    return count / bucket + (count % bucket != 0);
}

// --- Encoding

static size_t qsgd_bound(const struct tern_codec *codec, size_t count)
{
    size_t rest = codec->coder == TERN_QSGD_ELIAS ? tern_qsgd_elias_bound(count, codec->levels)
                                                  : tern_qsgd_dense_bound(count, codec->levels);
    return HEAD_MOST + SCALE_BYTES * buckets_of(count, codec->bucket) + rest;
}

static enum tern_result qsgd_check_peak(const struct tern_codec *codec, float peak)
{
    bool overflows =
        codec->norm == TERN_QSGD_L2 && tern_float_bits(peak * NORM_MOST) >= TERN_INFINITY_BITS;
    return overflows ? TERN_ERR_NON_FINITE : TERN_OK;
}

// Never below the largest magnitude: sums and root are rounded, but in order.
static float scale_of(const float *values, size_t count, uint32_t norm)
{
    return norm == TERN_QSGD_L2 ? (float)tern_sqrt(tern_kernel_sum_square(values, count))
                                : tern_bits_float(tern_kernel_peak(values, count));
}

// Replaces the values of one bucket, which begins at value `start`, by levels; returns the highest.
static float quantize(const struct tern_encode_job *job, size_t start, size_t len, float scale)
{
    uint32_t draws[DRAWS_AT_ONCE];
    struct tern_prng rng = tern_codec_stream(job->context, start);
    float highest = 0;
    for (size_t at = start; at < start + len; at += DRAWS_AT_ONCE) {
        size_t here = smaller(DRAWS_AT_ONCE, start + len - at);
        tern_prng_fill(&rng, draws, here);
        float level =
            tern_kernel_levels(job->values + at, here, scale, (float)job->codec->levels, draws);
        highest = level > highest ? level : highest;
    }
    return highest;
}

// Quantizes all buckets and writes their scales; returns whether any value is not 0.
static bool quantize_all(const struct tern_encode_job *job, uint8_t *scales)
{
    bool any = false;
    size_t bucket = job->codec->bucket;
    for (size_t start = 0; start < job->count; start += bucket, scales += SCALE_BYTES) {
        size_t len = smaller(bucket, job->count - start);
        float scale = scale_of(job->values + start, len, job->codec->norm);
        tern_put_f32(scales, scale);
        if (scale > 0) {
            // A level above 0 stands for more than half of its value, so never for 0.
            any |= quantize(job, start, len, scale) > 0;
        }
    }
    return any;
}

static size_t qsgd_encode(const struct tern_encode_job *job)
{
    const struct tern_codec *codec = job->codec;
    bool elias = codec->coder == TERN_QSGD_ELIAS;
    uint8_t *at = job->dst;
    *at++ = elias ? TERN_MODE_QSGD_ELIAS : TERN_MODE_QSGD_DENSE;
    at += tern_put_varint(at, codec->levels);
    at += tern_put_varint(at, codec->bucket < job->count ? codec->bucket : 0);
    if (!quantize_all(job, at)) {
        return 0;
    }
    at += SCALE_BYTES * buckets_of(job->count, codec->bucket);
    at = elias ? tern_qsgd_elias_put(job->values, job->count, at)
               : tern_qsgd_dense_put(job->values, job->count, codec->levels, at);
    return (size_t)(at - job->dst);
}

// --- Reading

bool tern_qsgd_layout(const uint8_t *body, size_t len, size_t count,
                      struct tern_qsgd_layout *layout)
{
    uint64_t levels = 0;
    size_t levels_bytes = tern_get_varint(body, len, &levels);
    if (levels_bytes == 0 || levels < 1 || levels > TERN_QSGD_LEVELS_MOST || count == 0) {
        return false;
    }
    uint64_t bucket = 0;
    size_t bucket_bytes = tern_get_varint(body + levels_bytes, len - levels_bytes, &bucket);
    bool in_range = bucket == 0 || (bucket >= TERN_QSGD_BUCKET_LEAST && bucket < count);
    if (bucket_bytes == 0 || !in_range) {
        return false;
    }
    layout->levels = (uint32_t)levels;
    layout->bucket = bucket > 0 ? (size_t)bucket : count;
    layout->buckets = buckets_of(count, layout->bucket);
    size_t head = levels_bytes + bucket_bytes;
    // At most count scales, one each 32 values, so that the product does not overflow.
    if (layout->buckets * SCALE_BYTES > len - head) {
        return false;
    }
    layout->scales = body + head;
    layout->rest = layout->scales + layout->buckets * SCALE_BYTES;
    layout->rest_len = len - head - layout->buckets * SCALE_BYTES;
    return true;
}

float tern_qsgd_scale(const struct tern_qsgd_layout *layout, size_t bucket)
{
    return tern_get_f32(layout->scales + SCALE_BYTES * bucket);
}

enum tern_result tern_qsgd_check_scales(const struct tern_qsgd_layout *layout)
{
    for (size_t i = 0; i < layout->buckets; i++) {
        // Unsigned, a sign bit is above infinity.
        if (tern_get_le32(layout->scales + SCALE_BYTES * i) >= TERN_INFINITY_BITS) {
            return TERN_ERR_NON_FINITE;
        }
    }
    return TERN_OK;
}

// --- The codec

static const char *const norm_names[] = {"max", "l2", NULL};
static const char *const coder_names[] = {"dense", "elias", NULL};
static const struct tern_spec_parameter parameters[] = {
    {.key = "levels",
     .meaning = TERN_HELP("magnitudes besides 0"),
     .range = TERN_HELP("1 to 32767"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(levels),
     .least = 1,
     .most = 32767,
     .preset = 7},
    {.key = "bucket",
     .meaning = TERN_HELP("values that share a scale; the most is all of a tensor"),
     .range = TERN_HELP("32 to 268435456"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(bucket),
     .least = 32,
     .most = 1u << 28,
     .preset = 512},
    {.key = "norm",
     .meaning = TERN_HELP("what the scale of a bucket is: the largest magnitude or the L2 norm"),
     .range = TERN_HELP("max or l2"),
     .kind = TERN_SPEC_CHOICE,
     .offset = TERN_FIELD(norm),
     .most = TERN_QSGD_L2,
     .preset = TERN_QSGD_MAX,
     .choices = norm_names},
    {.key = "coder",
     .meaning = TERN_HELP("how the levels become bytes: as many bits for each, or Elias codes"),
     .range = TERN_HELP("dense or elias"),
     .kind = TERN_SPEC_CHOICE,
     .offset = TERN_FIELD(coder),
     .most = TERN_QSGD_ELIAS,
     .preset = TERN_QSGD_DENSE,
     .choices = coder_names},
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_qsgd_codec = {
    .entry = {.id = TERN_CODEC_QSGD,
              .name = "qsgd",
              .summary = TERN_HELP("few levels for each bucket of values, rounded at random"),
              .source = TERN_HELP(
                  "Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD, NeurIPS 2017, sections 3 and 4"),
              .good_for = TERN_HELP("clients that cannot keep an error buffer; convergence that a "
                                    "theorem bounds (norm=l2, coder=elias)"),
              .not_for = TERN_HELP("links that are paid by the byte: with error buffers 3lc takes "
                                   "a third to a sixth of its bytes"),
              .feedback = TERN_FEEDBACK_NONE,
              .random = true,
              .parameters = parameters},
    .bound = qsgd_bound,
    .check = qsgd_check_peak,
    .encode = qsgd_encode,
    .modes = {&tern_qsgd_dense_mode, &tern_qsgd_elias_mode},
};

// A bucket's squared error, in expectation, is below its squared norm for any values when d < 4 s^2
// with the L2 norm; with the largest magnitude when d - 1 < 8 s^2, and up to twice that for all but
// values that huddle at half a level. tests/shared/test_qsgd.c feeds both back.
static bool downloads(const struct tern_codec *codec)
{
    uint64_t square = (uint64_t)codec->levels * codec->levels;
    return codec->norm == TERN_QSGD_MAX ? codec->bucket <= 16 * square : codec->bucket < 4 * square;
}

const struct tern_codec_plan tern_qsgd_plan = {
    .fixed_bits = 4.0,
    .thin = tern_plan_no_density,
    .downloads = downloads,
};
