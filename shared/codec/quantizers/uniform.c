// The codec uniform: whole multiples of one step, with a dead zone (Sullivan, "Efficient scalar quantization of exponential and
// Laplacian random variables", IEEE Trans. Information Theory 42, 1996). The step is as coarse as an error bound allows
// (uniform_step.c), so a dense change takes more bytes than a sparse one. An adaptive binary range coder codes blocks of values
// plane by plane: which values are not 0, which of these have 2 steps or more, and so on, then the signs (uniform_lane.h).
// docs/FORMAT.md, section 3.8.
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "codec/quantizers/uniform_lane.h"
#include "util/bytes.h"

#include <string.h>

enum {
    SCALE_BYTES = 4,
    LANE_BYTES = 4,    // bytes of the length of the first of two lanes
    LANES_MIN = 16384, // a payload with so many values has two lanes
    STEPS_MOST = 259,  // most steps of a value in a valid payload
};
_Static_assert(STEPS_MOST >= TERN_STEP_MOST, "what the encoder finds can be written");

// The scale is at most 1.5 times the largest magnitude. If this is below FLT_MAX / PEAK_ROOM, STEPS_MOST times the scale is finite.
#define PEAK_ROOM 512.0f

// --- Lanes

// Large payloads have two lanes, one after the other, each with its own contexts. The processor decodes both at once, so that it
// does not wait for each decision.
static bool has_lanes(size_t count)
{
    return count >= LANES_MIN;
}

// Returns the number of values in the first lane. The second one has as many, or one less.
static size_t first_lane(size_t count)
{
    return has_lanes(count) ? count - count / 2 : count;
}

static size_t head_bytes(size_t count)
{
    return SCALE_BYTES + (has_lanes(count) ? LANE_BYTES : 0);
}

static void open_chances(tern_uniform_chance *chances, size_t count, tern_uniform_chance zero)
{
    for (size_t i = 0; i < count; i++) {
        chances[i] = zero;
    }
}

void tern_uniform_open_contexts(struct tern_uniform_contexts *contexts)
{
    open_chances(contexts->nonzero, 1 << TERN_UNIFORM_PAST, TERN_RANGE_ONE / 2);
    open_chances(contexts->more[0], sizeof contexts->more / sizeof contexts->more[0][0], 42000);
    open_chances(contexts->sign, 5, TERN_RANGE_ONE / 2);
    open_chances(contexts->class, TERN_UNIFORM_CLASSES, TERN_RANGE_ONE / 2);
}

// --- Encoding

// n decisions take at most 15/11 n + 6 bits; tests/shared/test_uniform.c tries every state of a context. A value takes at most nine
// decisions and seven plain bits, less than 20 bits in all. The writer stores whole words.
static size_t uniform_bound(const struct tern_codec *codec, size_t count)
{
    (void)codec;
    return 1 + head_bytes(count) + 2 * count + count / 2 + 48;
}

static enum tern_result uniform_check_peak(const struct tern_codec *codec, float peak)
{
    (void)codec;
    bool overflows = tern_float_bits(peak * PEAK_ROOM) >= TERN_INFINITY_BITS;
    return overflows ? TERN_ERR_NON_FINITE : TERN_OK;
}

// Encodes `count` values from index `first` on as a lane. Returns the end of its bytes.
static uint8_t *write_lane(const struct tern_encode_job *job, size_t first, size_t count,
                           const struct tern_uniform_step *step, uint8_t *dst)
{
#if TERN_SMALL
    return tern_uniform_write_values(job->values + first, count, step, dst);
#else
    float *replica = job->context->replica;
    return tern_uniform_write_planes(job->values + first, replica != NULL ? replica + first : NULL,
                                     count, step, dst);
#endif
}

static size_t uniform_encode(const struct tern_encode_job *job)
{
    const struct tern_uniform_step step =
        tern_uniform_step(job->values, job->count, job->peak, (double)job->codec->error);
    const size_t first = first_lane(job->count);
    uint8_t *lanes = job->dst + 1 + head_bytes(job->count);
    job->dst[0] = TERN_MODE_UNIFORM;
    tern_put_f32(job->dst + 1, step.scale);
    uint8_t *end = write_lane(job, 0, first, &step, lanes);
    if (first < job->count) {
        tern_put_le32(job->dst + 1 + SCALE_BYTES, (uint32_t)(end - lanes));
        end = write_lane(job, first, job->count - first, &step, end);
    }
    return (size_t)(end - job->dst);
}

// --- Decoding

static enum tern_result check_scale(const uint8_t *body, size_t len)
{
    if (len < SCALE_BYTES) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t bits = tern_get_le32(body);
    // A negative scale fails, too: as unsigned numbers its bits are above infinity.
    if (bits >= TERN_INFINITY_BITS ||
        tern_float_bits((float)STEPS_MOST * tern_bits_float(bits)) >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    return bits > 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// --- Adding and describing decoded values

static void describe_block(const int16_t *steps, size_t count, struct tern_codec_info *info)
{
    const struct tern_step_facts facts = tern_kernel_steps_facts(steps, count);
    const float maximum = (float)facts.most * info->scale;
    info->nonzero += facts.nonzero;
    info->sum_square += (double)facts.square * ((double)info->scale * (double)info->scale);
    info->maximum = maximum > info->maximum ? maximum : info->maximum;
}

void tern_uniform_give(const struct tern_uniform_sink *sink, const int16_t *steps, size_t at,
                       size_t count)
{
    if (sink->acc != NULL) {
        tern_kernel_steps_add(steps, count, sink->scale, sink->weight, sink->acc + at);
    }
    if (sink->info != NULL) {
        describe_block(steps, count, sink->info);
    }
}

static enum tern_result uniform_add(const uint8_t *body, size_t len, size_t count, float weight,
                                    float *acc, struct tern_codec_info *info)
{
    TERN_TRY(check_scale(body, len));
    const size_t head = head_bytes(count);
    size_t first_len = len - SCALE_BYTES;
    if (has_lanes(count)) {
        if (len < head || tern_get_le32(body + SCALE_BYTES) > len - head) {
            return TERN_ERR_CORRUPT;
        }
        first_len = tern_get_le32(body + SCALE_BYTES);
    }
    const struct tern_uniform_sink sink = {tern_get_f32(body), weight, acc, info};
    if (info != NULL) {
        info->scale = sink.scale;
    }
    const size_t first = first_lane(count);
    const struct tern_uniform_lane lanes[TERN_UNIFORM_LANES] = {
        {body + head, first_len, 0, first},
        {body + head + first_len, len - head - first_len, first, count - first},
    };
    const unsigned used = has_lanes(count) ? TERN_UNIFORM_LANES : 1;
    const bool whole = TERN_SMALL ? tern_uniform_read_values(lanes, used, &sink)
                                  : tern_uniform_read_planes(lanes, used, &sink);
    return whole ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result uniform_check(const uint8_t *body, size_t len, size_t count)
{
    return uniform_add(body, len, count, 0, NULL, NULL);
}

static void uniform_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                               size_t count)
{
    (void)uniform_add(body, len, count, weight, acc, NULL);
}

// Decodes by adding to +0, so that one loop serves both.
static void uniform_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    memset(dst, 0, count * sizeof *dst);
    (void)uniform_add(body, len, count, 1, dst, NULL);
}

static void uniform_describe(const uint8_t *body, size_t len, size_t count,
                             struct tern_codec_info *info)
{
    (void)uniform_add(body, len, count, 0, NULL, info);
}

static const struct tern_mode mode = {
    .byte = TERN_MODE_UNIFORM,
    .name = "uniform",
    .check = uniform_check,
    .decode = uniform_decode,
    .accumulate = uniform_accumulate,
    .describe = uniform_describe,
#if !TERN_SMALL
    .add = uniform_add,
#endif
};

// --- The codec

static const struct tern_spec_parameter parameters[] = {
    {.key = "error",
     .meaning =
         TERN_HELP("largest fraction of the squared norm that remains unsent; more only if 256 "
                   "steps up to the largest value are too coarse"),
     .range = TERN_HELP("0.0001 to 0.9"),
     .kind = TERN_SPEC_NUMBER,
     .offset = TERN_FIELD(error),
     .least = TERN_UNIFORM_ERROR_LEAST,
     .most = 900000,
     .preset = TERN_SPEC_MILLION / 10},
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_uniform_codec = {
    .entry = {.id = TERN_CODEC_UNIFORM,
              .name = "uniform",
              .summary = TERN_HELP("multiples of one step, as coarse as an error bound allows"),
              .source =
                  TERN_HELP("Sullivan: Efficient Scalar Quantization of Exponential and "
                            "Laplacian Random Variables, IEEE Trans. Information Theory 1996"),
              .good_for = TERN_HELP("pilots, deep models and few rounds: a set fraction of each "
                                    "change waits for later rounds, whatever its distribution"),
              .not_for = TERN_HELP("bytes that must not depend on the values (use density); slow "
                                   "devices (use int8)"),
              .feedback = TERN_FEEDBACK_ERROR,
              .parameters = parameters},
    .bound = uniform_bound,
    .check = uniform_check_peak,
    .encode = uniform_encode,
#if !TERN_SMALL
    .adds = true,
#endif
    .modes = {&mode},
};

// --- Estimates for plans

// Measured bits per value of 101,770 normally distributed values.
struct point {
    double error;
    double bits;
};
static const struct point points[] = {
    {0.0001, 7.097}, {0.0003, 6.297}, {0.001, 5.411}, {0.003, 4.581}, {0.01, 3.668}, {0.02, 3.147},
    {0.03, 2.843},   {0.05, 2.469},   {0.07, 2.222},  {0.1, 1.958},   {0.15, 1.66},  {0.2, 1.447},
    {0.3, 1.139},    {0.45, 0.811},   {0.6, 0.549},   {0.75, 0.322},  {0.9, 0.123},
};
enum { POINTS = sizeof points / sizeof points[0] };

// Updates with error feedback take this fraction of the bits: means of whole federations on Fashion-MNIST that use this codec for
// uploads and downloads. Errors 0.03, 0.05, 0.1 and 0.3 took 2.07, 1.81, 1.47 and 1.04 bits a value of mlp:784-32-10 (pilot of 3
// clients, 10 rounds), 2.01, 1.76, 1.45 and 1.01 of mlp:784-128-10 (40 rounds), 2.03, 1.77, 1.43 and 0.89 of
// softmax:784-10 (20 rounds), where 0.001, 0.01, 0.6 and 0.9 took 4.18, 2.66, 0.39 and 0.09.
#define UPDATES 0.75

static double between(double x, double x0, double x1, double y0, double y1)
{
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

static double bits_at(double error)
{
    size_t i = 1;
    while (i + 1 < POINTS && points[i].error < error) {
        i++;
    }
    return between(error, points[i - 1].error, points[i].error, points[i - 1].bits, points[i].bits);
}

static double uniform_bits(const struct tern_codec *codec)
{
    return UPDATES * bits_at((double)codec->error);
}

// Raises the error, to at most 0.9, until values take as many bits as ternary ones of density p.
static bool thin(struct tern_codec *codec, double p, bool density)
{
    (void)density;
    double bits = tern_plan_ternary_bits(p) / UPDATES;
    double error = points[POINTS - 1].error;
    for (size_t i = 1; i < POINTS; i++) {
        if (points[i].bits <= bits) {
            error = between(bits, points[i - 1].bits, points[i].bits, points[i - 1].error,
                            points[i].error);
            break;
        }
    }
    bool thinner = (float)error > codec->error;
    codec->error = thinner ? (float)error : codec->error;
    return thinner;
}

const struct tern_codec_plan tern_uniform_plan = {
    .bits = uniform_bits,
    .thin = thin,
    .downloads = tern_plan_always,
};
