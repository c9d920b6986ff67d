// Codes blocks value by value. One function both writes and reads a decision, so that the code of the model exists once.
#include "codec/quantizers/uniform_lane.h"

#include <string.h>

enum {
    PAST = TERN_UNIFORM_PAST,
    BLOCK = TERN_UNIFORM_BLOCK,
    LEVELS = TERN_UNIFORM_LEVELS,
};

struct lane {
    bool writes;
    struct tern_range_writer writer;
    struct tern_range_reader reader;
    unsigned together;  // decisions between two renormalisations
    unsigned decisions; // left until the next renormalisation
    struct tern_uniform_contexts contexts;
    int16_t steps[PAST + BLOCK + 1]; // the last values of the previous block, the block, and a 0
};

// --- Decisions

static void open_plane(struct lane *lane, unsigned together)
{
    lane->together = together;
    lane->decisions = 0;
}

// Writes a decision, or reads one and ignores `bit`. Returns the decision.
static unsigned decide(struct lane *lane, tern_uniform_chance *chance, unsigned bit)
{
    uint64_t ones = 0 - (uint64_t)bit;
    const bool renormalises = lane->decisions == 0;
    lane->decisions = (renormalises ? lane->together : lane->decisions) - 1;
    if (lane->writes) {
        if (renormalises) {
            tern_range_make_room(&lane->writer);
        }
        tern_range_narrow(&lane->writer, *chance, ones);
    } else {
        if (renormalises) {
            tern_range_refill(&lane->reader);
        }
        ones = tern_range_get(&lane->reader, *chance);
    }
    tern_uniform_learn(chance, ones);
    return (unsigned)(ones & 1);
}

// --- The planes of a block

// When a lane is read, a plane's value is changed from the magnitude that earlier planes found to the one that this plane finds.

static unsigned magnitude_of(int16_t steps)
{
    return (unsigned)(steps < 0 ? -steps : steps);
}

static void set_magnitude(const struct lane *lane, int16_t *value, unsigned steps)
{
    if (!lane->writes) {
        *value = (int16_t)steps;
    }
}

static tern_uniform_chance *nonzero_chance(struct lane *lane, const int16_t *value)
{
    unsigned context = 0;
    for (int i = PAST; i > 0; i--) {
        context = context >> 1 | (unsigned)(value[-i] != 0) << (PAST - 1);
    }
    return &lane->contexts.nonzero[context];
}

static tern_uniform_chance *more_chance(struct lane *lane, const int16_t *value, unsigned level)
{
    const unsigned before = magnitude_of(value[-1]);
    const unsigned context = (unsigned)(before >= level) | (unsigned)(before > level) << 1 |
                             (unsigned)(magnitude_of(value[1]) >= level) << 2;
    return &lane->contexts.more[level - 1][context];
}

// Codes which of the values with `level` or more steps have more than `level`.
static void code_level(struct lane *lane, int16_t *values, size_t count, unsigned level)
{
    open_plane(lane, TERN_UNIFORM_TOGETHER);
    for (size_t i = 0; i < count; i++) {
        int16_t *value = &values[i];
        if (level > 0 && magnitude_of(*value) < level) {
            continue;
        }
        tern_uniform_chance *chance =
            level == 0 ? nonzero_chance(lane, value) : more_chance(lane, value, level);
        set_magnitude(lane, value, level + decide(lane, chance, magnitude_of(*value) > level));
    }
}

// Codes a value with LEVELS or more steps: first the number of bits below the highest bit of beyond = steps - LEVELS + 1, then
// these bits.
static void code_class(struct lane *lane, int16_t *value)
{
    enum { CLASS_BITS = 3, MOST_DECISIONS = 16 };
    const unsigned beyond = magnitude_of(*value) - LEVELS + 1;
    const unsigned class = tern_bits_log2(beyond);
    unsigned node = 1;
    unsigned coded = 1;
    open_plane(lane, MOST_DECISIONS);
    for (unsigned i = CLASS_BITS; i-- > 0;) {
        node = 2 * node + decide(lane, &lane->contexts.class[node], class >> i & 1);
    }
    for (unsigned i = node - TERN_UNIFORM_CLASSES; i-- > 0;) {
        tern_uniform_chance even = TERN_RANGE_ONE / 2;
        coded = 2 * coded + decide(lane, &even, beyond >> i & 1);
    }
    set_magnitude(lane, value, coded + LEVELS - 1);
}

// Codes a sign as its difference from the sign of the value before, or, if that value is 0, of the value before it.
static void code_sign(struct lane *lane, int16_t *value)
{
    const int last = value[-1];
    const int before = value[-2];
    const bool differ = last != 0 && before != 0 && (last < 0) != (before < 0);
    const unsigned context = (unsigned)(before != 0) + 2 * (unsigned)(last != 0) + differ;
    const unsigned expected = (last != 0 ? last : before) < 0;
    const unsigned coded =
        decide(lane, &lane->contexts.sign[context], (unsigned)(*value < 0) ^ expected);
    const unsigned magnitude = magnitude_of(*value);
    *value = (int16_t)(coded != expected ? -(int)magnitude : (int)magnitude);
}

// Codes a block's values, from steps[PAST] on, and makes its last values those of the previous block.
static void code_block(struct lane *lane, size_t count)
{
    int16_t *values = lane->steps + PAST;
    values[count] = 0;
    for (unsigned level = 0; level < LEVELS; level++) {
        code_level(lane, values, count, level);
    }
    for (size_t i = 0; i < count; i++) {
        if (magnitude_of(values[i]) >= LEVELS) {
            code_class(lane, &values[i]);
        }
    }
    open_plane(lane, TERN_UNIFORM_TOGETHER);
    for (size_t i = 0; i < count; i++) {
        if (values[i] != 0) {
            code_sign(lane, &values[i]);
        }
    }
    memcpy(lane->steps, lane->steps + BLOCK, PAST * sizeof lane->steps[0]);
}

// --- Lanes

static void open_lane(struct lane *lane, bool writes)
{
    lane->writes = writes;
    memset(lane->steps, 0, sizeof lane->steps);
    tern_uniform_open_contexts(&lane->contexts);
}

static size_t block_at(size_t first, size_t count)
{
    return count - first < BLOCK ? count - first : BLOCK;
}

uint8_t *tern_uniform_write_values(float *values, size_t count,
                                   const struct tern_uniform_step *step, uint8_t *dst)
{
    struct lane lane;
    open_lane(&lane, true);
    lane.writer = tern_range_write(dst);
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t here = block_at(first, count);
        tern_steps_split(values + first, here, step->rule, step->scale, lane.steps + PAST);
        code_block(&lane, here);
    }
    return tern_range_finish(&lane.writer);
}

static bool read_lane(const struct tern_uniform_lane *bytes, const struct tern_uniform_sink *sink)
{
    struct lane lane;
    open_lane(&lane, false);
    lane.reader = tern_range_read(bytes->src, bytes->len);
    size_t first = 0;
    while (first < bytes->count && !tern_range_past_end(&lane.reader)) {
        const size_t here = block_at(first, bytes->count);
        code_block(&lane, here);
        tern_uniform_give(sink, lane.steps + PAST, bytes->at + first, here);
        first += here;
    }
    size_t end = 0;
    return first == bytes->count && tern_range_end(&lane.reader, &end) && end == bytes->len;
}

bool tern_uniform_read_values(const struct tern_uniform_lane *bytes, unsigned count,
                              const struct tern_uniform_sink *sink)
{
    for (unsigned i = 0; i < count; i++) {
        if (!read_lane(&bytes[i], sink)) {
            return false;
        }
    }
    return true;
}
