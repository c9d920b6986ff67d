// Codes blocks plane by plane: which values are not 0, which of these have 2 steps or more, and so on, then the signs. Planes have no
// branch that depends on a value. Two lanes are decoded at once, so that the processor does not wait for each decision.
#include "codec/kernels/kernels.h"
#include "codec/quantizers/uniform_lane.h"

#include <string.h>

#define TERN_INLINE static inline __attribute__((always_inline))

// --- The planes of a block

enum {
    LANES = TERN_UNIFORM_LANES,
    PAST = TERN_UNIFORM_PAST, // flags of values before the block, in the lowest bits of a word
    BLOCK = TERN_UNIFORM_BLOCK,
    BITS = PAST + BLOCK,
    LEVELS = TERN_UNIFORM_LEVELS,
    TOGETHER = TERN_UNIFORM_TOGETHER,
    CLASSES = TERN_UNIFORM_CLASSES,
};
_Static_assert(BITS == 64, "a plane is a word");

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
    struct tern_uniform_contexts contexts;
};

TERN_INLINE void put(struct tern_range_writer *range, tern_uniform_chance *chance, unsigned bit)
{
    const uint64_t ones = 0 - (uint64_t)bit;
    tern_range_narrow(range, *chance, ones);
    tern_uniform_learn(chance, ones);
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

uint8_t *tern_uniform_write_planes(float *values, float *replica, size_t count,
                                   const struct tern_uniform_step *step, uint8_t *dst)
{
    struct writer writer = {.range = tern_range_write(dst)};
    int16_t steps[BITS]; // by bit
    tern_uniform_open_contexts(&writer.contexts);
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

// --- Decoding

struct lane {
    struct tern_range_reader range;
    struct planes planes;
    size_t at;   // index of the next block's first value in the payload
    size_t left; // values that are not decoded yet
    size_t here; // number of values in the block
    struct tern_uniform_contexts contexts;
    int16_t steps[BITS]; // [bit] of the block
};

static void open_lane(struct lane *lane, const struct tern_uniform_lane *bytes)
{
    lane->at = bytes->at;
    lane->range = tern_range_read(bytes->src, bytes->len);
    memset(&lane->planes, 0, sizeof lane->planes);
    lane->left = bytes->count;
    tern_uniform_open_contexts(&lane->contexts);
}

TERN_INLINE unsigned decide(struct tern_range_reader *range, tern_uniform_chance *chance)
{
    const uint64_t ones = tern_range_get(range, *chance);
    tern_uniform_learn(chance, ones);
    return (unsigned)(ones & 1);
}

// The state of decoding one plane; apart from the lane, so that it stays in registers.
struct cursor {
    struct tern_range_reader range;
    struct tern_uniform_contexts *contexts;
    int16_t *steps; // by bit
    unsigned level;
    uint64_t plane; // the bits decoded so far
    uint64_t found;
    uint64_t left; // bits of the values that are not decoded yet
};

TERN_INLINE void next_nonzero(struct cursor *cursor)
{
    tern_uniform_chance *chance = &cursor->contexts->nonzero[past_of(cursor->found)];
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
TERN_INLINE void read_plane(struct cursor cursors[LANES], unsigned together,
                            void (*next)(struct cursor *cursor))
{
    unsigned decision = 0;
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
    struct cursor cursors[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        cursors[i] = open_plane(&lanes[i], 0, all_of(lanes[i].here), lanes[i].planes.least[0]);
    }
    read_plane(cursors, TOGETHER, next_nonzero);
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i].planes.least[0] = close_plane(&lanes[i], &cursors[i]) >> (BLOCK - lanes[i].here);
    }
}

static void read_more(struct lane *lanes, unsigned level)
{
    struct cursor cursors[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        const uint64_t *least = lanes[i].planes.least;
        cursors[i] = open_plane(&lanes[i], level, least[level - 1], past_of(least[level]));
    }
    read_plane(cursors, TOGETHER, next_more);
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i].planes.least[level] = close_plane(&lanes[i], &cursors[i]);
    }
}

static void read_classes(struct lane *lanes)
{
    struct cursor cursors[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        cursors[i] = open_plane(&lanes[i], 0, lanes[i].planes.least[LEVELS - 1], 0);
    }
    read_plane(cursors, 1, next_class);
    for (unsigned i = 0; i < LANES; i++) {
        (void)close_plane(&lanes[i], &cursors[i]);
    }
}

static void read_signs(struct lane *lanes)
{
    struct cursor cursors[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        cursors[i] =
            open_plane(&lanes[i], 0, lanes[i].planes.least[0], past_of(lanes[i].planes.negative));
    }
    read_plane(cursors, TOGETHER, next_sign);
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i].planes.negative = close_plane(&lanes[i], &cursors[i]);
    }
}

// Decodes the next block of each lane.
static void read_blocks(struct lane *lanes)
{
    for (unsigned i = 0; i < LANES; i++) {
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
    for (unsigned i = 0; i < LANES; i++) {
        going = going || lanes[i].left > 0;
        if (!goes_on(&lanes[i])) {
            return false;
        }
    }
    return going;
}

bool tern_uniform_read_planes(const struct tern_uniform_lane *bytes, unsigned count,
                              const struct tern_uniform_sink *sink)
{
    static const struct tern_uniform_lane no_lane = {.src = NULL};
    struct lane lanes[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        open_lane(&lanes[i], i < count ? &bytes[i] : &no_lane);
    }
    while (all_go_on(lanes)) {
        read_blocks(lanes);
        for (unsigned i = 0; i < LANES; i++) {
            tern_uniform_give(sink, lanes[i].steps + PAST, lanes[i].at, lanes[i].here);
            lanes[i].at += lanes[i].here;
        }
    }
    return is_whole(&lanes[0]) && (count == 1 || is_whole(&lanes[1]));
}
