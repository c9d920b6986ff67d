// The ternary coder range: an adaptive binary range coder of the gaps between values that are not 0, and of their signs. The
// context is the local density, as the mean of the last gaps. Probabilities start at those of independent values with this
// density, so that they adapt fast. docs/FORMAT.md, section 3.4.
#include "codec/coders/indices.h"
#include "codec/coders/range_bits.h"
#include "codec/coders/ternary.h"
#include "util/bytes.h"

#include <string.h>

// --- The model

enum {
    MEAN_BITS = 4, // fraction bits of the mean gap
    FIRST_MEAN = 8 << MEAN_BITS,
    SLOWEST = 4,   // the fourth and later gaps have the weight 1/8
    LONGEST = 4,   // a gap counts as at most so many means
    CLASSES = 25,  // classes of the mean gap, one per octave
    QUOTIENTS = 8, // leaves of a class's tree
    ESCAPE = QUOTIENTS - 1,
    FIRST_SHIFTED = 3, // first class whose gaps have low bits besides the quotient
    ADJACENT = 2,      // added to the context of a sign if the gap before it is 0
    SIGN_CONTEXTS = 4,
};

// A gap, or a mean gap in fixed point. Small devices have no tensors of 2^24 values, for which 32 bits would not suffice.
#if TERN_SMALL
typedef uint32_t distance;
#else
typedef uint64_t distance;
#endif

// The adaptive state apart from the contexts; it stays in registers.
struct past {
    distance mean; // mean of the past gaps, fixed point
    unsigned seen; // number of past gaps, at most SLOWEST
    unsigned sign; // the last sign
};

static const struct past no_past = {.mean = FIRST_MEAN};

struct contexts {
    struct tern_chance quotients[CLASSES][QUOTIENTS]; // by node of the tree, the root is 1
    struct tern_chance signs[SIGN_CONTEXTS];
};

// The first probabilities of each class's tree: those of geometric gaps with the class's middle mean, 2^(class - 0.5) - 0.5. The
// last row serves all later classes.
enum { NOMINAL_ROWS = 5 };
static const uint16_t nominal[NOMINAL_ROWS][QUOTIENTS] = {
    {0, 63488, 63488, 63488, 55938, 55938, 55938, 54292},
    {0, 62126, 53364, 50588, 44353, 44353, 44353, 34237},
    {0, 49841, 44002, 33464, 38561, 38561, 38561, 19690},
    {0, 49662, 43920, 33282, 38516, 38516, 38516, 19560},
    {0, 49618, 43900, 33237, 38505, 38505, 38505, 19528},
};

static void open_contexts(struct contexts *contexts)
{
    for (size_t class = 0; class < CLASSES; class ++) {
        size_t row = class < NOMINAL_ROWS ? class : NOMINAL_ROWS - 1;
        for (size_t node = 0; node < QUOTIENTS; node++) {
            contexts->quotients[class][node] =
                (struct tern_chance){nominal[row][node], TERN_RANGE_FIRST_WEIGHT};
        }
    }
    for (size_t i = 0; i < SIGN_CONTEXTS; i++) {
        contexts->signs[i] = (struct tern_chance){TERN_RANGE_ONE / 2, TERN_RANGE_FIRST_WEIGHT};
    }
}

static inline unsigned class_of(distance mean)
{
    unsigned class = tern_bits_log2(mean + (1 << MEAN_BITS) / 2) - (MEAN_BITS - 1);
    return class < CLASSES ? class : CLASSES - 1;
}

// Returns the number of low bits of a gap, which follow the quotient.
static inline unsigned shift_of(unsigned class)
{
    return class < FIRST_SHIFTED ? 0 : class - (FIRST_SHIFTED - 1);
}

static inline unsigned next_class(unsigned class)
{
    return class < CLASSES - 1 ? class + 1 : class;
}

// A gap far above the mean counts as LONGEST means, because many short gaps often follow it.
static inline void learn(struct past *past, distance gap, unsigned sign)
{
    distance most = LONGEST * (past->mean + (1 << MEAN_BITS));
    distance scaled = gap << MEAN_BITS;
    scaled = scaled < most ? scaled : most;
    past->seen += past->seen < SLOWEST;
    unsigned shift = 1 + tern_bits_log2(past->seen);
    past->mean -= past->mean >> shift;
    past->mean += scaled >> shift;
    past->sign = sign;
}

// --- Encoding

static inline void put_quotient(struct tern_range_writer *writer, struct tern_chance *tree,
                                unsigned quotient)
{
    tern_range_make_room(writer);
    tern_range_put(writer, &tree[1], quotient >> 2);
    tern_range_put(writer, &tree[2 + (quotient >> 2)], quotient >> 1 & 1);
    tern_range_put(writer, &tree[4 + (quotient >> 1)], quotient & 1);
}

struct writer {
    struct tern_range_writer range;
    struct tern_bit_writer bits; // writes backwards from the end of the buffer
    struct past past;
    struct contexts *contexts;
};

static inline void put_gap(struct writer *writer, distance gap)
{
    unsigned class = class_of(writer->past.mean);
    distance left = gap;
    while (left >> shift_of(class) >= ESCAPE) {
        put_quotient(&writer->range, writer->contexts->quotients[class], ESCAPE);
        left -= (distance)ESCAPE << shift_of(class);
        class = next_class(class);
    }
    unsigned shift = shift_of(class);
    put_quotient(&writer->range, writer->contexts->quotients[class], (unsigned)(left >> shift));
    tern_bits_put_back(&writer->bits, tern_bits_low(left, shift), shift);
}

static inline void put_sign(struct writer *writer, distance gap, unsigned sign)
{
    unsigned context = writer->past.sign + (gap == 0 ? ADJACENT : 0);
    tern_range_put(&writer->range, &writer->contexts->signs[context], sign);
    learn(&writer->past, gap, sign);
}

// Moves the bits from the end of the buffer directly after the bytes of the range coder. Returns the total length.
static size_t join(struct writer *writer, uint8_t *dst, const uint8_t *end)
{
    uint8_t *middle = tern_range_finish(&writer->range);
    const uint8_t *bits = tern_bits_finish_back(&writer->bits);
    memmove(middle, bits, (size_t)(end - bits));
    return (size_t)(middle - dst) + (size_t)(end - bits);
}

// A value that is not 0 takes four decisions of at most 7 bits, and low bits, which are fewer than a third of the mean gap: the
// 28 bits for each zero cover their sum, apart from a constant due to FIRST_MEAN. An escape takes 21 bits for at least 7 zeros.
// Both writers store whole words.
static size_t bound_range(size_t count)
{
    return count / 2 * 7 + count % 2 * 4 + 16 + 2 * TERN_BITS_SLACK;
}

static size_t encode_range(const struct tern_planes *planes, uint8_t *dst)
{
    uint8_t *end = dst + bound_range(planes->count);
    struct contexts contexts;
    open_contexts(&contexts);
    struct writer writer = {.range = tern_range_write(dst),
                            .bits = {.at = end},
                            .past = no_past,
                            .contexts = &contexts};
    size_t next = 0; // first value that is not encoded yet
    for (size_t word = 0; word < tern_plane_words(planes->count); word++) {
        uint64_t negative = planes->negative[word];
        for (uint64_t left = planes->nonzero[word]; left != 0; left &= left - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(left);
            distance gap = (distance)(word * 64 + bit - next);
            put_gap(&writer, gap);
            put_sign(&writer, gap, negative >> bit & 1);
            next += (size_t)gap + 1;
        }
    }
    if (next < planes->count) {
        put_gap(&writer, (distance)(planes->count - next));
    }
    return join(&writer, dst, end);
}

const struct tern_ternary_coder tern_range_coder = {
    .mode = TERN_MODE_TERNARY_RANGE,
    .bound = bound_range,
    .encode = encode_range,
};

// --- Decoding

struct reader {
    struct tern_range_reader range;
    struct tern_bit_reader bits; // reads backwards from the end
    struct past past;
    struct contexts *contexts;
    size_t next;  // first value that is not decoded yet
    size_t count; // number of values
};

static struct reader open_reader(const uint8_t *body, size_t len, size_t count,
                                 struct contexts *contexts)
{
    const uint8_t *src = body + TERN_TERNARY_SCALE_BYTES;
    size_t src_len = len - TERN_TERNARY_SCALE_BYTES;
    open_contexts(contexts);
    return (struct reader){.range = tern_range_read(src, src_len),
                           .bits = {.src = src, .len = src_len},
                           .past = no_past,
                           .contexts = contexts,
                           .count = count};
}

// Selects one of two numbers without a branch.
static inline uint32_t pick(uint64_t ones, uint32_t if_zero, uint32_t if_one)
{
    return if_zero ^ ((if_zero ^ if_one) & (uint32_t)ones);
}

// Loads all possible probabilities first, because each decision waits for the one before. A small build takes one after the
// other.
static inline unsigned get_quotient(struct tern_range_reader *range, struct tern_chance *tree)
{
    tern_range_refill(range);
    if (TERN_SMALL) {
        unsigned node = 1;
        while (node < QUOTIENTS) {
            uint64_t ones = tern_range_get(range, tree[node].zero);
            tern_chance_learn(&tree[node], ones);
            node = 2 * node + (unsigned)(ones & 1);
        }
        return node - QUOTIENTS;
    }
    uint64_t high = tern_range_get(range, tree[1].zero);
    uint32_t third_0 = pick(high, tree[4].zero, tree[6].zero);
    uint32_t third_1 = pick(high, tree[5].zero, tree[7].zero);
    uint64_t middle = tern_range_get(range, pick(high, tree[2].zero, tree[3].zero));
    uint64_t low = tern_range_get(range, pick(middle, third_0, third_1));
    unsigned second = 2 + (unsigned)(high & 1);
    unsigned third = 2 * second + (unsigned)(middle & 1);
    tern_chance_learn(&tree[1], high);
    tern_chance_learn(&tree[second], middle);
    tern_chance_learn(&tree[third], low);
    return 2 * third + (unsigned)(low & 1) - QUOTIENTS;
}

// Decodes a gap; stops early if it is above `most`.
static inline distance get_gap(struct reader *reader, distance most)
{
    unsigned class = class_of(reader->past.mean);
    distance gap = 0;
    unsigned quotient = 0;
    unsigned shift = 0;
    do {
        shift = shift_of(class);
        quotient = get_quotient(&reader->range, reader->contexts->quotients[class]);
        gap += (distance)quotient << shift;
        class = next_class(class);
    } while (quotient == ESCAPE && gap <= most);
    return gap + (distance)tern_bits_get_back(&reader->bits, shift);
}

// Decodes a sign; returns all bits set for -1.
static inline uint64_t get_sign(struct reader *reader, distance gap)
{
    struct tern_chance *signs = &reader->contexts->signs[reader->past.sign];
    uint64_t adjacent = 0 - (uint64_t)(gap == 0);
    uint64_t ones =
        tern_range_get(&reader->range, pick(adjacent, signs[0].zero, signs[ADJACENT].zero));
    tern_chance_learn(&signs[adjacent & ADJACENT], ones);
    learn(&reader->past, gap, (unsigned)(ones & 1));
    return ones;
}

// Decodes the next batch; an empty one at the end. Sets `next` to SIZE_MAX if the bytes are corrupt.
static void find_indices(void *shared, struct tern_indices *indices)
{
    struct reader reader = *(struct reader *)shared; // a local copy stays in registers
    size_t found = 0;
    while (found < TERN_INDICES_MAX && reader.next < reader.count) {
        distance left = (distance)(reader.count - reader.next);
        distance gap = get_gap(&reader, left);
        if (gap >= left) {
            reader.next = gap == left ? reader.count : SIZE_MAX;
            break;
        }
        uint64_t ones = get_sign(&reader, gap);
        size_t at = reader.next + (size_t)gap;
        indices->of[found++] = 2 * (tern_signed_index)at + (tern_signed_index)(ones & 1);
        reader.next = at + 1;
    }
    indices->count = found;
    *(struct reader *)shared = reader;
}

// Stops past the end of the bytes, so that the time is proportional to them: zeros past the end could decode to `count` values.
static bool can_go_on(const struct reader *reader)
{
    return reader->next < reader->count && !tern_range_past_end(&reader->range);
}

static enum tern_result end_of(const struct reader *reader)
{
    size_t end = 0;
    bool right = reader->next == reader->count && tern_range_end(&reader->range, &end) &&
                 tern_bits_end_back(&reader->bits, end);
    return right ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result each_range(const uint8_t *body, size_t len, size_t count,
                                   tern_take_signs *take, void *ctx)
{
    TERN_TRY(tern_ternary_check_scale(body, len));
    struct contexts contexts;
    struct reader reader = open_reader(body, len, count, &contexts);
    struct tern_indices indices;
    while (can_go_on(&reader)) {
        find_indices(&reader, &indices);
        take(ctx, tern_get_f32(body), &indices);
    }
    return end_of(&reader);
}

static enum tern_result check_range(const uint8_t *body, size_t len, size_t count)
{
    return each_range(body, len, count, tern_indices_skip, NULL);
}

// weight * (scale * q) has the same bits as (weight * scale) * q, because q = -1 or 1 only changes the sign.
static void accumulate_range(const uint8_t *body, size_t len, float weight, float *acc,
                             size_t count)
{
    struct contexts contexts;
    struct reader reader = open_reader(body, len, count, &contexts);
    uint32_t scale_bits = tern_float_bits(weight * tern_get_f32(body));
    tern_indices_accumulate(find_indices, &reader, scale_bits, acc);
}

static void decode_range(const uint8_t *body, size_t len, float *dst, size_t count)
{
    if (TERN_SMALL) { // adding to +0 is slower than setting, but saves the code of a second loop
        memset(dst, 0, count * sizeof *dst);
        accumulate_range(body, len, 1, dst, count);
        return;
    }
    struct contexts contexts;
    struct reader reader = open_reader(body, len, count, &contexts);
    tern_indices_decode(find_indices, &reader, tern_get_le32(body), dst, count);
}

static void describe_range(const uint8_t *body, size_t len, size_t count,
                           struct tern_codec_info *info)
{
    if (!TERN_FOR_PEOPLE) {
        tern_ternary_describe(body, 1, 0, info);
        return;
    }
    struct contexts contexts;
    struct reader reader = open_reader(body, len, count, &contexts);
    tern_ternary_describe(body, tern_indices_count(find_indices, &reader), 0, info);
}

const struct tern_mode tern_ternary_range_mode = {
    .byte = TERN_MODE_TERNARY_RANGE,
    .ternary = true,
    .name = "ternary-range",
    .check = check_range,
    .decode = decode_range,
    .accumulate = accumulate_range,
    .describe = describe_range,
    .each = TERN_SMALL ? NULL : each_range,
};
