// The codec qsgd: QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017). The values of a bucket share a scale, their L2
// norm (section 3.1) or largest magnitude (section 4). Each magnitude is rounded at random to one of s levels, so that its
// expectation is exact (section 3.1); there is no error feedback.
#include "codec/coders/bits.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "util/bytes.h"
#include "util/math.h"
#include <string.h>

enum { SCALE_BYTES = 4, DRAWS_AT_ONCE = 256 };

// The mode byte and the two numbers of the header.
enum { HEAD_MOST = 1 + 2 * TERN_VARINT_MAX };

// The norm of 2^28 values is at most this times the largest magnitude.
#define NORM_MOST 0x1p14f

enum { LEVELS_MOST = 32767, BUCKET_LEAST = 32 };

// The parts of a body.
struct layout {
    uint32_t levels;       // s
    size_t bucket;         // d, at most count
    size_t buckets;        // ceil(count / d)
    const uint8_t *scales; // float32 each
    const uint8_t *rest;   // the levels
    size_t rest_len;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t buckets_of(size_t count, size_t bucket)
{
    return count / bucket + (count % bucket != 0);
}

// --- Reading

static bool read_layout(const uint8_t *body, size_t len, size_t count, struct layout *layout)
{
    uint64_t levels = 0;
    size_t levels_bytes = tern_get_varint(body, len, &levels);
    if (levels_bytes == 0 || levels < 1 || levels > LEVELS_MOST || count == 0) {
        return false;
    }
    uint64_t bucket = 0;
    size_t bucket_bytes = tern_get_varint(body + levels_bytes, len - levels_bytes, &bucket);
    bool in_range = bucket == 0 || (bucket >= BUCKET_LEAST && bucket < count);
    if (bucket_bytes == 0 || !in_range) {
        return false;
    }
    layout->levels = (uint32_t)levels;
    layout->bucket = bucket > 0 ? (size_t)bucket : count;
    layout->buckets = buckets_of(count, layout->bucket);
    size_t head = levels_bytes + bucket_bytes;
    // A bucket has at least 32 values, so the product does not overflow.
    if (layout->buckets * SCALE_BYTES > len - head) {
        return false;
    }
    layout->scales = body + head;
    layout->rest = layout->scales + layout->buckets * SCALE_BYTES;
    layout->rest_len = len - head - layout->buckets * SCALE_BYTES;
    return true;
}

static float bucket_scale(const struct layout *layout, size_t bucket)
{
    return tern_get_f32(layout->scales + SCALE_BYTES * bucket);
}

static enum tern_result check_scales(const struct layout *layout)
{
    for (size_t i = 0; i < layout->buckets; i++) {
        // A negative scale fails, too: as unsigned numbers its bits are above infinity.
        if (tern_get_le32(layout->scales + SCALE_BYTES * i) >= TERN_INFINITY_BITS) {
            return TERN_ERR_NON_FINITE;
        }
    }
    return TERN_OK;
}

// --- The mode dense: each level as a sign and as many bits as the largest level has

static unsigned width_of(uint32_t levels)
{
    return tern_bits_log2(levels) + 2;
}

// Avoids count * width, which may not fit a size_t.
static size_t bytes_of(size_t count, unsigned width)
{
    return count / 8 * width + (count % 8 * width + 7) / 8;
}

static size_t dense_bound(size_t count, uint32_t levels)
{
    return bytes_of(count, width_of(levels)) + TERN_BITS_SLACK;
}

static uint8_t *put_dense(const float *values, size_t count, uint32_t levels, uint8_t *dst)
{
    unsigned width = width_of(levels);
    struct tern_bit_writer writer = {.at = dst};
    for (size_t i = 0; i < count; i++) {
        // Computes the magnitude without a branch on the sign, which would be unpredictable.
        int32_t level = (int32_t)values[i];
        uint32_t negative = (uint32_t)level >> 31;
        uint32_t magnitude = ((uint32_t)level ^ (0u - negative)) + negative;
        tern_bits_put(&writer, magnitude | negative << (width - 1), width);
    }
    return tern_bits_finish(&writer);
}

static enum tern_result dense_check(const uint8_t *body, size_t len, size_t count)
{
    struct layout layout;
    if (!read_layout(body, len, count, &layout) ||
        layout.rest_len != bytes_of(count, width_of(layout.levels))) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(check_scales(&layout));
    unsigned width = width_of(layout.levels);
    struct tern_bit_reader reader = {.src = layout.rest, .len = layout.rest_len};
    bool valid = true;
    for (size_t i = 0; i < count; i++) {
        uint64_t field = tern_bits_get(&reader, width);
        // A negative 0 is invalid.
        valid &= tern_bits_low(field, width - 1) <= layout.levels && field != 1u << (width - 1);
    }
    return valid && tern_bits_end(&reader) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Reads the levels of up to PIECE values of one bucket at a time.
enum { PIECE = 256 };

struct dense_walk {
    struct layout layout;
    struct tern_bit_reader reader;
    unsigned width;
    size_t count;
    size_t at;   // first value of the piece
    size_t len;  // values of the piece; 0 after the last piece
    float scale; // scale of the piece's bucket
    float levels[PIECE];
};

static void next_piece(struct dense_walk *walk)
{
    walk->at += walk->len;
    size_t index = walk->at % walk->layout.bucket;
    size_t len = walk->layout.bucket - index;
    len = len < PIECE ? len : PIECE;
    walk->len = len < walk->count - walk->at ? len : walk->count - walk->at;
    if (walk->len > 0) {
        walk->scale = bucket_scale(&walk->layout, walk->at / walk->layout.bucket);
    }
    unsigned level_bits = walk->width - 1;
    for (size_t i = 0; i < walk->len; i++) {
        uint32_t field = (uint32_t)tern_bits_get(&walk->reader, walk->width);
        uint32_t negative = field >> level_bits;
        uint32_t magnitude = field & ((1u << level_bits) - 1);
        walk->levels[i] = (float)(int32_t)((magnitude ^ (0u - negative)) + negative);
    }
}

// Reads the first piece of a checked body.
static void begin_dense(struct dense_walk *walk, const uint8_t *body, size_t len, size_t count)
{
    read_layout(body, len, count, &walk->layout);
    walk->reader = (struct tern_bit_reader){.src = walk->layout.rest, .len = walk->layout.rest_len};
    walk->width = width_of(walk->layout.levels);
    walk->count = count;
    walk->at = 0;
    walk->len = 0;
    next_piece(walk);
}

static void dense_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    struct dense_walk walk;
    for (begin_dense(&walk, body, len, count); walk.len > 0; next_piece(&walk)) {
        tern_kernel_levels_set(walk.levels, walk.len, walk.scale, (float)walk.layout.levels,
                               dst + walk.at);
    }
}

static void dense_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                             size_t count)
{
    struct dense_walk walk;
    for (begin_dense(&walk, body, len, count); walk.len > 0; next_piece(&walk)) {
        tern_kernel_levels_add(walk.levels, walk.len, walk.scale, (float)walk.layout.levels, weight,
                               acc + walk.at);
    }
}

static void dense_describe(const uint8_t *body, size_t len, size_t count,
                           struct tern_codec_info *info)
{
    struct dense_walk walk;
    begin_dense(&walk, body, len, count);
    info->scale = walk.scale;
    for (; walk.len > 0; next_piece(&walk)) {
        for (size_t i = 0; i < walk.len; i++) {
            tern_describe_value(
                info, tern_level_value(walk.scale, walk.levels[i], (float)walk.layout.levels));
        }
    }
}

static const struct tern_mode dense_mode = {
    .byte = TERN_MODE_QSGD_DENSE,
    .name = "qsgd-dense",
    .check = dense_check,
    .decode = dense_decode,
    .accumulate = dense_accumulate,
    .describe = dense_describe,
};

// --- The mode elias: for each level that is not 0 the Elias omega codes of the distance from the last one and of the level, and
// a sign (section 3.2 of the paper, "Code_s")

// Levels that are not 0 take the most bits per value if they are adjacent: 1 for the distance, 1 for the sign, and the level's
// code. Skipping g values adds at most 2 g bits to a distance.
static size_t elias_bound(size_t count, uint32_t levels)
{
    size_t bits = 2 + tern_elias_length(levels);
    return TERN_VARINT_MAX + count / 8 * bits + (count % 8 * bits + 7) / 8 + TERN_BITS_SLACK;
}

static size_t nonzero_of(const float *values, size_t count)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < count; i++) {
        nonzero += values[i] != 0;
    }
    return nonzero;
}

static uint8_t *put_elias(const float *values, size_t count, uint8_t *dst)
{
    struct tern_bit_writer writer = {.at = dst + tern_put_varint(dst, nonzero_of(values, count))};
    size_t after = 0; // index after the last value that is not 0
    for (size_t i = 0; i < count; i++) {
        if (values[i] != 0) {
            bool negative = values[i] < 0;
            tern_elias_put(&writer, (uint32_t)(i - after) + 1);
            tern_bits_put(&writer, negative, 1);
            tern_elias_put(&writer, (uint32_t)(negative ? -values[i] : values[i]));
            after = i + 1;
        }
    }
    return tern_bits_finish(&writer);
}

enum { LEAST_BITS = 3 }; // smallest code of a value that is not 0: distance, sign and level

// Reads the values that are not 0 in order.
struct elias_walk {
    struct layout layout;
    struct tern_bit_reader reader;
    size_t left;  // number of values still to read
    size_t index; // index after the last value
    float scale;  // scale of the values below scale_end
    size_t scale_end;
};

struct symbol {
    size_t index;
    uint32_t level; // 0: the bits are invalid
    bool negative;
};

// Returns false if the body has no valid header.
static bool begin_elias(struct elias_walk *walk, const uint8_t *body, size_t len, size_t count)
{
    if (!read_layout(body, len, count, &walk->layout)) {
        return false;
    }
    uint64_t nonzero = 0;
    size_t bytes = tern_get_varint(walk->layout.rest, walk->layout.rest_len, &nonzero);
    walk->reader = (struct tern_bit_reader){.src = walk->layout.rest + bytes,
                                            .len = walk->layout.rest_len - bytes};
    walk->left = (size_t)nonzero;
    walk->index = 0;
    walk->scale_end = 0;
    return bytes > 0 && nonzero > 0 && nonzero <= count;
}

static struct symbol next_symbol(struct elias_walk *walk)
{
    uint32_t distance = tern_elias_get(&walk->reader);
    struct symbol symbol = {.index = walk->index + distance - 1};
    symbol.negative = tern_bits_get(&walk->reader, 1) != 0;
    symbol.level = distance > 0 ? tern_elias_get(&walk->reader) : 0;
    walk->index = symbol.index + 1;
    walk->left--;
    return symbol;
}

static float value_of(struct elias_walk *walk, struct symbol symbol)
{
    if (symbol.index >= walk->scale_end) {
        size_t bucket = symbol.index / walk->layout.bucket;
        walk->scale = bucket_scale(&walk->layout, bucket);
        walk->scale_end = (bucket + 1) * walk->layout.bucket;
    }
    float value =
        tern_level_value(walk->scale, (float)(int32_t)symbol.level, (float)walk->layout.levels);
    return tern_bits_float(tern_float_bits(value) | (uint32_t)symbol.negative << 31);
}

static enum tern_result elias_check(const uint8_t *body, size_t len, size_t count)
{
    struct elias_walk walk;
    if (!begin_elias(&walk, body, len, count)) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(check_scales(&walk.layout));
    // Zeros past the end would decode to any number of values.
    if (walk.left > 8 * (uint64_t)walk.reader.len / LEAST_BITS) {
        return TERN_ERR_CORRUPT;
    }
    while (walk.left > 0) {
        struct symbol symbol = next_symbol(&walk);
        if (symbol.level == 0 || symbol.level > walk.layout.levels || symbol.index >= count) {
            return TERN_ERR_CORRUPT;
        }
    }
    return tern_bits_end(&walk.reader) ? TERN_OK : TERN_ERR_CORRUPT;
}

static void elias_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                             size_t count)
{
    struct elias_walk walk;
    begin_elias(&walk, body, len, count);
    while (walk.left > 0) {
        struct symbol symbol = next_symbol(&walk);
        acc[symbol.index] += weight * value_of(&walk, symbol);
    }
}

static void elias_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    struct elias_walk walk;
    begin_elias(&walk, body, len, count);
    memset(dst, 0, count * sizeof *dst);
    while (walk.left > 0) {
        struct symbol symbol = next_symbol(&walk);
        dst[symbol.index] = value_of(&walk, symbol);
    }
}

static void elias_describe(const uint8_t *body, size_t len, size_t count,
                           struct tern_codec_info *info)
{
    struct elias_walk walk;
    begin_elias(&walk, body, len, count);
    info->scale = bucket_scale(&walk.layout, 0);
    while (walk.left > 0) {
        tern_describe_value(info, value_of(&walk, next_symbol(&walk)));
    }
}

static const struct tern_mode elias_mode = {
    .byte = TERN_MODE_QSGD_ELIAS,
    .name = "qsgd-elias",
    .check = elias_check,
    .decode = elias_decode,
    .accumulate = elias_accumulate,
    .describe = elias_describe,
};

// --- Encoding

static size_t qsgd_bound(const struct tern_codec *codec, size_t count)
{
    size_t rest = codec->coder == TERN_QSGD_ELIAS ? elias_bound(count, codec->levels)
                                                  : dense_bound(count, codec->levels);
    return HEAD_MOST + SCALE_BYTES * buckets_of(count, codec->bucket) + rest;
}

static enum tern_result qsgd_check_peak(const struct tern_codec *codec, float peak)
{
    bool overflows =
        codec->norm == TERN_QSGD_L2 && tern_float_bits(peak * NORM_MOST) >= TERN_INFINITY_BITS;
    return overflows ? TERN_ERR_NON_FINITE : TERN_OK;
}

// Returns the scale of a bucket; never below its largest magnitude, because rounding preserves order.
static float scale_of(const float *values, size_t count, uint32_t norm)
{
    return norm == TERN_QSGD_L2 ? (float)tern_sqrt(tern_kernel_sum_square(values, count))
                                : tern_bits_float(tern_kernel_peak(values, count));
}

// Replaces the values start..start + len, one bucket, by levels. Returns the highest level.
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
            // A level above 0 never decodes to 0.
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
    at = elias ? put_elias(job->values, job->count, at)
               : put_dense(job->values, job->count, codec->levels, at);
    return (size_t)(at - job->dst);
}

// --- The codec

static const char *const norm_names[] = {"max", "l2", NULL};
static const char *const coder_names[] = {"dense", "elias", NULL};
static const struct tern_spec_parameter parameters[] = {
    {.key = "levels",
     .meaning = TERN_HELP("number of magnitudes above 0"),
     .range = TERN_HELP("1 to 32767"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(levels),
     .least = 1,
     .most = 32767,
     .preset = 7},
    {.key = "bucket",
     .meaning = TERN_HELP("values that share a scale; the largest number means the whole tensor"),
     .range = TERN_HELP("32 to 268435456"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(bucket),
     .least = 32,
     .most = 1u << 28,
     .preset = 512},
    {.key = "norm",
     .meaning = TERN_HELP("scale of a bucket: the largest magnitude or the L2 norm"),
     .range = TERN_HELP("max or l2"),
     .kind = TERN_SPEC_CHOICE,
     .offset = TERN_FIELD(norm),
     .most = TERN_QSGD_L2,
     .preset = TERN_QSGD_MAX,
     .choices = norm_names},
    {.key = "coder",
     .meaning =
         TERN_HELP("encoding of the levels: the same number of bits for each, or Elias codes"),
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
              .summary = TERN_HELP("a few levels per bucket of values, rounded at random"),
              .source = TERN_HELP(
                  "Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD, NeurIPS 2017, sections 3 and 4"),
              .good_for = TERN_HELP("clients that cannot keep an error buffer; proven convergence "
                                    "(norm=l2, coder=elias)"),
              .not_for = TERN_HELP("metered links: 3lc with an error buffer takes a third to a "
                                   "sixth of the bytes"),
              .feedback = TERN_FEEDBACK_NONE,
              .random = true,
              .parameters = parameters},
    .bound = qsgd_bound,
    .check = qsgd_check_peak,
    .encode = qsgd_encode,
    .modes = {&dense_mode, &elias_mode},
};

// Downloads converge if a bucket's expected squared error is below its squared norm. For any values this holds if d < 4 s^2 with
// the L2 norm, and if d - 1 < 8 s^2 with the largest magnitude; up to twice that it holds except for values close to half a
// level. tests/shared/test_qsgd.c tests both.
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
