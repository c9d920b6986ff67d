// The codec uniform: whole multiples of one step, with a dead zone (Sullivan, "Efficient scalar quantization of exponential and
// Laplacian random variables", IEEE Trans. Information Theory 42, 1996). The step is as coarse as an error bound allows
// (uniform_step.c), so a dense change takes more bytes than a sparse one. An adaptive binary range coder codes blocks of values
// plane by plane: which values are not 0, which of these have 2 steps or more, and so on, then the signs. Planes have no branch
// that depends on a value. docs/FORMAT.md, section 3.8.
#include "codec/coders/range_bits.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include "codec/quantizers/uniform_step.h"
#include "util/bytes.h"

#include <string.h>

enum {
    SCALE_BYTES = 4,
    LANE_BYTES = 4, // bytes of the length of the first of two lanes
    LANES = 2,
    AT_ONCE = TERN_SMALL ? 1 : LANES, // lanes that are decoded together
    LANES_MIN = 16384,                // a payload with so many values has two lanes
    STEPS_MOST = 259,                 // most steps of a value in a valid payload
};
_Static_assert(STEPS_MOST >= TERN_STEP_MOST, "what the encoder finds can be written");

// The scale is at most 1.5 times the largest magnitude. If this is below FLT_MAX / PEAK_ROOM, STEPS_MOST times the scale is finite.
#define PEAK_ROOM 512.0f

#if TERN_SMALL
#define TERN_INLINE static __attribute__((noinline))
#else
#define TERN_INLINE static inline __attribute__((always_inline))
#endif

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

// --- The model: planes of a block, and the contexts of their decisions

enum {
    PAST = 4, // number of values before the block whose flags are in the lowest bits of a word
    TERN_WORD = 64,
    BLOCK = TERN_WORD - PAST,
    LEVELS = 5,   // number of planes of magnitudes: values with at least 1, 2, ... 5 steps
    RATE = 5,     // a decision moves its probability by 1 / 2^RATE towards 0 or 1
    TOGETHER = 4, // decisions between two renormalisations of the range coder
    CLASSES = 8,  // classes of values with LEVELS or more steps
};

// Probability of 0, in 1 / TERN_RANGE_ONE.
typedef uint16_t chance_t;

struct contexts {
    // Index: which of the last values are not 0, the last value in the highest bit.
    chance_t nonzero[1 << PAST];
    chance_t more[LEVELS - 1][8];
    chance_t sign[5];
    chance_t class[CLASSES]; // nodes of a tree, from 1 on
};

// Adapts a probability to a decision. ones: all bits set for a 1, none for a 0.
static inline void learn(chance_t *chance, uint64_t ones)
{
    const uint32_t least = TERN_RANGE_LEAST >> RATE;
    const uint32_t swing = (TERN_RANGE_ONE - 2 * TERN_RANGE_LEAST) >> RATE;
    const uint32_t zero = *chance;
    *chance = (chance_t)(zero - (zero >> RATE) + least + (swing & ~(uint32_t)ones));
}

static void open_chances(chance_t *chances, size_t count, chance_t zero)
{
    for (size_t i = 0; i < count; i++) {
        chances[i] = zero;
    }
}

static void open_contexts(struct contexts *contexts)
{
    open_chances(contexts->nonzero, 1 << PAST, TERN_RANGE_ONE / 2);
    open_chances(contexts->more[0], sizeof contexts->more / sizeof contexts->more[0][0], 42000);
    open_chances(contexts->sign, 5, TERN_RANGE_ONE / 2);
    open_chances(contexts->class, CLASSES, TERN_RANGE_ONE / 2);
}

// One bit for each value of a block, starting at bit PAST; the bits below belong to the last values of the previous block.
struct planes {
    uint64_t least[LEVELS]; // [l]: values with at least l + 1 steps
    uint64_t negative;
};

// Returns the start of a plane: the bits of the last values of the previous block.
static inline uint64_t past_of(uint64_t plane)
{
    return plane >> BLOCK;
}

// Returns the bits of a block's values in a plane.
static inline uint64_t values_of(uint64_t plane)
{
    return plane >> PAST << PAST;
}

static inline unsigned lowest(uint64_t plane)
{
    return (unsigned)__builtin_ctzll(plane);
}

// Returns the context of the value at bit `at` for the next plane: which of its neighbours are in this plane, and whether the value
// before it is in the next one.
TERN_INLINE unsigned more_context(uint64_t plane, uint64_t more, unsigned at)
{
    return (unsigned)(plane >> (at - 1) & 5) | (unsigned)(more >> (at - 1) & 1) << 1;
}

// A sign is coded as its difference from the sign of the value before, or, if that value is 0, of the value before it.
struct sign_context {
    unsigned index;
    unsigned expected; // 1: negative
};

TERN_INLINE struct sign_context sign_context(uint64_t nonzero, uint64_t negative, unsigned at)
{
    const unsigned known = (unsigned)(nonzero >> (at - 2) & 3);
    const unsigned last = (unsigned)(negative >> (at - 1) & 1);
    const unsigned before = (unsigned)(negative >> (at - 2) & 1);
    return (struct sign_context){.index = known + ((known == 3) & (last ^ before)),
                                 .expected = last | (before & ~(known >> 1))};
}

// --- Encoding

struct writer {
    struct tern_range_writer range;
    struct planes planes;
    struct contexts contexts;
};

TERN_INLINE void put(struct tern_range_writer *range, chance_t *chance, unsigned bit)
{
    const uint64_t ones = 0 - (uint64_t)bit;
    tern_range_narrow(range, *chance, ones);
    learn(chance, ones);
}

static inline unsigned magnitude_of(int16_t steps)
{
    return (unsigned)(steps < 0 ? -steps : steps);
}

TERN_INLINE void room_for(struct tern_range_writer *range, size_t decision)
{
    if (decision % TOGETHER == 0) {
        tern_range_make_room(range);
    }
}

static void put_nonzero(struct writer *writer, const int16_t *steps, size_t count)
{
    uint64_t plane = writer->planes.least[0];
    for (size_t i = 0; i < count; i++) {
        const unsigned bit = steps[PAST + i] != 0;
        room_for(&writer->range, i);
        put(&writer->range, &writer->contexts.nonzero[past_of(plane)], bit);
        plane = plane >> 1 | (uint64_t)bit << 63;
    }
    writer->planes.least[0] = plane >> (BLOCK - count);
}

static void put_more(struct writer *writer, const int16_t *steps, unsigned level)
{
    const uint64_t plane = writer->planes.least[level - 1];
    uint64_t more = past_of(writer->planes.least[level]);
    size_t decision = 0;
    for (uint64_t left = values_of(plane); left != 0; left &= left - 1) {
        const unsigned at = lowest(left);
        const unsigned bit = magnitude_of(steps[at]) > level;
        room_for(&writer->range, decision++);
        put(&writer->range, &writer->contexts.more[level - 1][more_context(plane, more, at)], bit);
        more |= (uint64_t)bit << at;
    }
    writer->planes.least[level] = more;
}

static inline void put_even(struct tern_range_writer *range, unsigned bit)
{
    tern_range_narrow(range, TERN_RANGE_ONE / 2, 0 - (uint64_t)bit);
}

// Encodes a value with LEVELS or more steps: `class` is the number of bits below the highest bit of beyond = steps - LEVELS + 1.
static void put_class(struct writer *writer, unsigned steps)
{
    const unsigned beyond = steps - LEVELS + 1;
    const unsigned class = tern_bits_log2(beyond);
    unsigned node = 1;
    tern_range_make_room(&writer->range);
    for (unsigned i = 3; i-- > 0;) {
        const unsigned bit = class >> i & 1;
        put(&writer->range, &writer->contexts.class[node], bit);
        node = 2 * node + bit;
    }
    for (unsigned i = class; i-- > 0;) {
        put_even(&writer->range, beyond >> i & 1);
    }
}

static void put_signs(struct writer *writer, const int16_t *steps)
{
    const uint64_t nonzero = writer->planes.least[0];
    uint64_t negative = past_of(writer->planes.negative);
    size_t decision = 0;
    for (uint64_t left = values_of(nonzero); left != 0; left &= left - 1) {
        const unsigned at = lowest(left);
        const unsigned bit = steps[at] < 0;
        const struct sign_context context = sign_context(nonzero, negative, at);
        room_for(&writer->range, decision++);
        put(&writer->range, &writer->contexts.sign[context.index], bit ^ context.expected);
        negative |= (uint64_t)bit << at;
    }
    writer->planes.negative = negative;
}

static void put_block(struct writer *writer, const int16_t *steps, size_t count)
{
    put_nonzero(writer, steps, count);
    for (unsigned level = 1; level < LEVELS; level++) {
        put_more(writer, steps, level);
    }
    for (uint64_t left = values_of(writer->planes.least[LEVELS - 1]); left != 0; left &= left - 1) {
        put_class(writer, magnitude_of(steps[lowest(left)]));
    }
    put_signs(writer, steps);
}

// Encodes the values of a lane and replaces them by their residual errors. Adds the decoded values to the replica, unless
// that is NULL. Returns the end of the lane's bytes.
static uint8_t *put_lane(float *values, float *replica, size_t count,
                         const struct tern_uniform_step *step, uint8_t *dst)
{
    struct writer writer = {.range = tern_range_write(dst)};
    int16_t steps[TERN_WORD]; // by bit
    open_contexts(&writer.contexts);
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t here = count - first < BLOCK ? count - first : BLOCK;
        tern_steps_split(values + first, here, step->rule, step->scale, steps + PAST);
        put_block(&writer, steps, here);
        if (replica != NULL) {
            tern_kernel_steps_add(steps + PAST, here, step->scale, 1.0F, replica + first);
        }
    }
    return tern_range_finish(&writer.range);
}

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

static float *replica_of(const struct tern_encode_job *job)
{
#if !TERN_SMALL
    return job->context->replica;
#else
    (void)job;
    return NULL;
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
    float *replica = replica_of(job);
    uint8_t *end = put_lane(job->values, replica, first, &step, lanes);
    if (first < job->count) {
        tern_put_le32(job->dst + 1 + SCALE_BYTES, (uint32_t)(end - lanes));
        end = put_lane(job->values + first, replica != NULL ? replica + first : NULL,
                       job->count - first, &step, end);
    }
    return (size_t)(end - job->dst);
}

// --- Decoding

struct lane {
    struct tern_range_reader range;
    struct planes planes;
    size_t at;   // index of the next block's first value in the payload
    size_t left; // values that are not decoded yet
    size_t here; // number of values in the block
    struct contexts contexts;
    int16_t steps[TERN_WORD]; // [bit] of the block
};

static void open_lane(struct lane *lane, const uint8_t *src, size_t len, size_t at, size_t count)
{
    lane->at = at;
    lane->range = tern_range_read(src, len);
    memset(&lane->planes, 0, sizeof lane->planes);
    lane->left = count;
    open_contexts(&lane->contexts);
}

TERN_INLINE unsigned decide(struct tern_range_reader *range, chance_t *chance)
{
    const uint64_t ones = tern_range_get(range, *chance);
    learn(chance, ones);
    return (unsigned)(ones & 1);
}

// The state of decoding one plane; apart from the lane, so that it stays in registers.
struct cursor {
    struct tern_range_reader range;
    struct contexts *contexts;
    int16_t *steps; // by bit
    unsigned level;
    uint64_t plane; // the bits decoded so far
    uint64_t found;
    uint64_t left; // bits of the values that are not decoded yet
};

TERN_INLINE void next_nonzero(struct cursor *cursor)
{
    chance_t *chance = &cursor->contexts->nonzero[past_of(cursor->found)];
    const unsigned bit = decide(&cursor->range, chance);
    cursor->steps[lowest(cursor->left)] = (int16_t)bit;
    cursor->found = cursor->found >> 1 | (uint64_t)bit << 63;
}

TERN_INLINE void next_more(struct cursor *cursor)
{
    const unsigned at = lowest(cursor->left);
    const unsigned context = more_context(cursor->plane, cursor->found, at);
    const unsigned bit =
        decide(&cursor->range, &cursor->contexts->more[cursor->level - 1][context]);
    cursor->steps[at] = (int16_t)(cursor->steps[at] + (int)bit);
    cursor->found |= (uint64_t)bit << at;
}

static inline unsigned decide_even(struct tern_range_reader *range)
{
    return (unsigned)(tern_range_get(range, TERN_RANGE_ONE / 2) & 1);
}

TERN_INLINE void next_class(struct cursor *cursor)
{
    unsigned node = 1;
    while (node < CLASSES) {
        node = 2 * node + decide(&cursor->range, &cursor->contexts->class[node]);
    }
    unsigned beyond = 1;
    for (unsigned i = node - CLASSES; i > 0; i--) {
        beyond = 2 * beyond + decide_even(&cursor->range);
    }
    cursor->steps[lowest(cursor->left)] = (int16_t)(beyond + LEVELS - 1);
}

TERN_INLINE void next_sign(struct cursor *cursor)
{
    const unsigned at = lowest(cursor->left);
    const struct sign_context context = sign_context(cursor->plane, cursor->found, at);
    const unsigned bit =
        context.expected ^ decide(&cursor->range, &cursor->contexts->sign[context.index]);
    const int magnitude = cursor->steps[at];
    cursor->steps[at] = (int16_t)((magnitude ^ -(int)bit) + (int)bit);
    cursor->found |= (uint64_t)bit << at;
}

// Decodes the rest of a plane. Renormalises before every `together` decisions.
TERN_INLINE struct cursor read_rest(struct cursor cursor, unsigned decision, unsigned together,
                                    void (*next)(struct cursor *cursor))
{
    for (; cursor.left != 0; cursor.left &= cursor.left - 1) {
        if (decision++ % together == 0) {
            tern_range_refill(&cursor.range);
        }
        next(&cursor);
    }
    return cursor;
}

// Decodes the same plane of several lanes, in which the lanes may have different numbers of values.
TERN_INLINE void read_plane(struct cursor cursors[AT_ONCE], unsigned together,
                            void (*next)(struct cursor *cursor))
{
    unsigned decision = 0;
#if !TERN_SMALL
    struct cursor a = cursors[0];
    struct cursor b = cursors[1];
    for (; a.left != 0 && b.left != 0; a.left &= a.left - 1, b.left &= b.left - 1) {
        if (decision++ % together == 0) {
            tern_range_refill(&a.range);
            tern_range_refill(&b.range);
        }
        next(&a);
        next(&b);
    }
    cursors[1] = read_rest(b, decision, together, next);
    cursors[0] = read_rest(a, decision, together, next);
#else
    cursors[0] = read_rest(cursors[0], decision, together, next);
#endif
}

TERN_INLINE struct cursor open_plane(struct lane *lane, unsigned level, uint64_t plane,
                                     uint64_t found)
{
    return (struct cursor){.range = lane->range,
                           .contexts = &lane->contexts,
                           .steps = lane->steps,
                           .level = level,
                           .plane = plane,
                           .found = found,
                           .left = values_of(plane)};
}

// Returns the decoded plane.
TERN_INLINE uint64_t close_plane(struct lane *lane, const struct cursor *cursor)
{
    lane->range = cursor->range;
    return cursor->found;
}

// Returns the bits of all values of a block.
static inline uint64_t all_of(size_t count)
{
    return count > 0 ? ~(uint64_t)0 >> (BLOCK - count) : 0;
}

static void read_nonzero(struct lane *lanes)
{
    struct cursor cursors[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++) {
        cursors[i] = open_plane(&lanes[i], 0, all_of(lanes[i].here), lanes[i].planes.least[0]);
    }
    read_plane(cursors, TOGETHER, next_nonzero);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        lanes[i].planes.least[0] = close_plane(&lanes[i], &cursors[i]) >> (BLOCK - lanes[i].here);
    }
}

static void read_more(struct lane *lanes, unsigned level)
{
    struct cursor cursors[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++) {
        const uint64_t *least = lanes[i].planes.least;
        cursors[i] = open_plane(&lanes[i], level, least[level - 1], past_of(least[level]));
    }
    read_plane(cursors, TOGETHER, next_more);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        lanes[i].planes.least[level] = close_plane(&lanes[i], &cursors[i]);
    }
}

static void read_classes(struct lane *lanes)
{
    struct cursor cursors[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++) {
        cursors[i] = open_plane(&lanes[i], 0, lanes[i].planes.least[LEVELS - 1], 0);
    }
    read_plane(cursors, 1, next_class);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        (void)close_plane(&lanes[i], &cursors[i]);
    }
}

static void read_signs(struct lane *lanes)
{
    struct cursor cursors[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++) {
        cursors[i] =
            open_plane(&lanes[i], 0, lanes[i].planes.least[0], past_of(lanes[i].planes.negative));
    }
    read_plane(cursors, TOGETHER, next_sign);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        lanes[i].planes.negative = close_plane(&lanes[i], &cursors[i]);
    }
}

// Decodes the next block of each lane.
static void read_blocks(struct lane *lanes)
{
    for (unsigned i = 0; i < AT_ONCE; i++) {
        lanes[i].here = lanes[i].left < BLOCK ? lanes[i].left : BLOCK;
        lanes[i].left -= lanes[i].here;
    }
    read_nonzero(lanes);
    for (unsigned level = 1; level < LEVELS; level++) {
        read_more(lanes, level);
    }
    read_classes(lanes);
    read_signs(lanes);
}

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

struct sink {
    float scale;
    float weight;
    float *acc;                   // [count] of the payload; NULL: adds nothing
    struct tern_codec_info *info; // NULL: describes nothing
};

static void describe_block(const int16_t *steps, size_t count, struct tern_codec_info *info)
{
    const struct tern_step_facts facts = tern_kernel_steps_facts(steps, count);
    const float maximum = (float)facts.most * info->scale;
    info->nonzero += facts.nonzero;
    info->sum_square += (double)facts.square * ((double)info->scale * (double)info->scale);
    info->maximum = maximum > info->maximum ? maximum : info->maximum;
}

static void give_block(const struct sink *sink, const int16_t *steps, size_t at, size_t count)
{
    if (sink->acc != NULL) {
        tern_kernel_steps_add(steps, count, sink->scale, sink->weight, sink->acc + at);
    }
    if (sink->info != NULL) {
        describe_block(steps, count, sink->info);
    }
}

static bool is_whole(const struct lane *lane)
{
    size_t end = 0;
    return lane->left == 0 && tern_range_end(&lane->range, &end) && end == lane->range.len;
}

// Stops past the end of the bytes, so that the time is proportional to them.
static bool goes_on(const struct lane *lane)
{
    return lane->left == 0 || !tern_range_past_end(&lane->range);
}

static bool all_go_on(const struct lane *lanes)
{
    bool going = false;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        going = going || lanes[i].left > 0;
        if (!goes_on(&lanes[i])) {
            return false;
        }
    }
    return going;
}

// Decodes lanes to their ends.
static void read_lanes(struct lane *lanes, const struct sink *sink)
{
    while (all_go_on(lanes)) {
        read_blocks(lanes);
        for (unsigned i = 0; i < AT_ONCE; i++) {
            give_block(sink, lanes[i].steps + PAST, lanes[i].at, lanes[i].here);
            lanes[i].at += lanes[i].here;
        }
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
    const struct sink sink = {tern_get_f32(body), weight, acc, info};
    if (info != NULL) {
        info->scale = sink.scale;
    }
    struct lane lanes[LANES];
    const size_t first = first_lane(count);
    open_lane(&lanes[0], body + head, first_len, 0, first);
    open_lane(&lanes[1], body + head + first_len, len - head - first_len, first, count - first);
    for (unsigned i = 0; i < LANES; i += AT_ONCE) {
        read_lanes(&lanes[i], &sink);
    }
    const bool whole = is_whole(&lanes[0]) && (!has_lanes(count) || is_whole(&lanes[1]));
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
