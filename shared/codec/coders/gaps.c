// The ternary coder gaps: Golomb-Rice codes of the gaps between values that are not 0, each with a sign bit (Golomb, "Run-length
// encodings", IEEE Trans. Inf. Theory 12, 1966; Rice and Plaunt, 1971). The parameter adapts to the mean gap. Uses shifts and
// masks only, for small devices. docs/FORMAT.md, section 3.4.
#include "codec/coders/bits.h"
#include "codec/coders/indices.h"
#include "codec/coders/ternary.h"
#include "util/bytes.h"

// --- The mean gap and the parameter

enum {
    MEAN_BITS = 4, // fraction bits of the mean
    FIRST_MEAN = 8 << MEAN_BITS,
    SLOWEST = 8, // the eighth and later gaps have the weight 1/16
    LARGEST_PARAMETER = 24,
    ESCAPE = 16, // gaps with this quotient or a larger one have a longer form
    LENGTH_BITS = 6,
};

struct mean {
    uint64_t value; // mean of the past gaps, fixed point
    unsigned seen;  // number of past gaps, at most SLOWEST
};

static const struct mean first_mean = {.value = FIRST_MEAN};

// The first gaps have the weights 1/2, 1/4, 1/4, 1/8, ..., so that the mean adapts within a small tensor.
static inline void learn(struct mean *mean, uint64_t gap)
{
    mean->seen += mean->seen < SLOWEST;
    unsigned shift = 1 + tern_bits_log2(mean->seen);
    mean->value -= mean->value >> shift;
    mean->value += gap << MEAN_BITS >> shift;
}

// Returns the best parameter for geometric gaps (Kiely, JPL IPN 42-159, 2004): floor(log2(0.9624 * (mean + 0.5))).
static inline unsigned parameter_of(const struct mean *mean)
{
    uint64_t scaled = mean->value + (1 << MEAN_BITS) / 2;
    unsigned parameter = tern_bits_log2((scaled - (scaled >> 5)) >> MEAN_BITS | 1);
    return parameter < LARGEST_PARAMETER ? parameter : LARGEST_PARAMETER;
}

// --- Encoding

static void put_long_gap(struct tern_bit_writer *bits, uint64_t gap)
{
    unsigned length = tern_bits_log2(gap);
    unsigned upper = length > 32 ? length - 32 : 0;
    tern_bits_put(bits, (uint64_t)length << ESCAPE, ESCAPE + LENGTH_BITS);
    tern_bits_put(bits, tern_bits_low(gap, length - upper), length - upper);
    tern_bits_put(bits, tern_bits_low(gap >> 32, upper), upper);
}

// Writes a gap and `sign_bits` bits of sign.
static inline void put_gap(struct tern_bit_writer *bits, struct mean *mean, uint64_t gap,
                           uint64_t sign, unsigned sign_bits)
{
    unsigned parameter = parameter_of(mean);
    uint64_t quotient = gap >> parameter;
    if (quotient < ESCAPE) {
        unsigned unary = (unsigned)quotient + 1;
        uint64_t code = 1 | tern_bits_low(gap, parameter) << 1 | sign << (parameter + 1);
        tern_bits_put(bits, code << quotient, unary + parameter + sign_bits);
    } else {
        put_long_gap(bits, gap);
        tern_bits_put(bits, sign, sign_bits);
    }
    learn(mean, gap);
}

static size_t encode_gaps(const struct tern_planes *planes, uint8_t *dst)
{
    struct tern_bit_writer bits = {.at = dst};
    struct mean mean = first_mean;
    size_t next = 0; // first value that is not encoded yet
    for (size_t word = 0; word < tern_plane_words(planes->count); word++) {
        uint64_t negative = planes->negative[word];
        for (uint64_t left = planes->nonzero[word]; left != 0; left &= left - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(left);
            size_t at = word * 64 + bit;
            put_gap(&bits, &mean, at - next, negative >> bit & 1, 1);
            next = at + 1;
        }
    }
    if (next < planes->count) {
        put_gap(&bits, &mean, planes->count - next, 0, 0);
    }
    return (size_t)(tern_bits_finish(&bits) - dst);
}

// At most 2 bits per value and a constant. A value that is not 0 takes 2 bits, the quotient and as many bits as the parameter.
// The sum of the quotients is at most the number of zeros, and so is that of the parameters, apart from a constant due to
// FIRST_MEAN. A long gap takes less than 2 bits per zero.
static size_t bound_gaps(size_t count)
{
    return count / 4 + 24 + TERN_BITS_SLACK;
}

const struct tern_ternary_coder tern_gaps_coder = {
    .mode = TERN_MODE_TERNARY_GAPS,
    .bound = bound_gaps,
    .encode = encode_gaps,
};

// --- Decoding

struct reader {
    struct tern_bit_reader bits;
    struct mean mean;
    size_t next;  // first value that is not decoded yet
    size_t count; // number of values
};

static struct reader open_reader(const uint8_t *body, size_t len, size_t count)
{
    return (struct reader){
        .bits = {.src = body + TERN_TERNARY_SCALE_BYTES, .len = len - TERN_TERNARY_SCALE_BYTES},
        .mean = first_mean,
        .count = count};
}

// Reads a gap in the long form. A gap that is too short for this form is returned as UINT64_MAX, which is an error.
static uint64_t get_long_gap(struct tern_bit_reader *bits, unsigned parameter)
{
    bits->at += ESCAPE;
    unsigned length = (unsigned)tern_bits_get(bits, LENGTH_BITS);
    unsigned upper = length > 32 ? length - 32 : 0;
    uint64_t gap = tern_bits_get(bits, length - upper);
    gap |= tern_bits_get(bits, upper) << 32;
    gap |= 1ull << length;
    return gap >> parameter >= ESCAPE ? gap : UINT64_MAX;
}

// Reads a gap and, unless it reaches `left`, the sign bit after it.
static inline uint64_t get_gap(struct reader *reader, uint64_t left, uint64_t *sign)
{
    unsigned parameter = parameter_of(&reader->mean);
    uint64_t code = tern_bits_peek(&reader->bits);
    unsigned quotient = (unsigned)__builtin_ctzll(code | 1ull << ESCAPE);
    uint64_t gap = 0;
    if (quotient < ESCAPE) {
        gap = (uint64_t)quotient << parameter | tern_bits_low(code >> quotient >> 1, parameter);
        reader->bits.at += quotient + 1 + parameter;
        code >>= quotient + 1 + parameter;
    } else {
        gap = get_long_gap(&reader->bits, parameter);
        code = tern_bits_peek(&reader->bits);
    }
    *sign = code & 1;
    reader->bits.at += gap < left;
    learn(&reader->mean, gap);
    return gap;
}

// Decodes the next batch; an empty one at the end. Sets `next` to SIZE_MAX if the bytes are corrupt.
static void find_indices(void *shared, struct tern_indices *indices)
{
    struct reader reader = *(struct reader *)shared; // a local copy stays in registers
    size_t found = 0;
    while (found < TERN_INDICES_MAX && reader.next < reader.count) {
        uint64_t left = reader.count - reader.next;
        uint64_t sign = 0;
        uint64_t gap = get_gap(&reader, left, &sign);
        if (gap >= left) {
            reader.next = gap == left ? reader.count : SIZE_MAX;
            break;
        }
        uint64_t at = reader.next + gap;
        indices->of[found++] = (tern_signed_index)(2 * at + sign);
        reader.next = (size_t)at + 1;
    }
    indices->count = found;
    *(struct reader *)shared = reader;
}

static enum tern_result each_gaps(const uint8_t *body, size_t len, size_t count,
                                  tern_take_signs *take, void *ctx)
{
    TERN_TRY(tern_ternary_check_scale(body, len));
    struct reader reader = open_reader(body, len, count);
    struct tern_indices indices;
    while (reader.next < count) {
        find_indices(&reader, &indices);
        take(ctx, tern_get_f32(body), &indices);
    }
    return reader.next == count && tern_bits_end(&reader.bits) ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result check_gaps(const uint8_t *body, size_t len, size_t count)
{
    return each_gaps(body, len, count, tern_indices_skip, NULL);
}

static void decode_gaps(const uint8_t *body, size_t len, float *dst, size_t count)
{
    struct reader reader = open_reader(body, len, count);
    tern_indices_decode(find_indices, &reader, tern_get_le32(body), dst, count);
}

// weight * (scale * q) has the same bits as (weight * scale) * q, because q = -1 or 1 only changes the sign.
static void accumulate_gaps(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    struct reader reader = open_reader(body, len, count);
    uint32_t scale_bits = tern_float_bits(weight * tern_get_f32(body));
    tern_indices_accumulate(find_indices, &reader, scale_bits, acc);
}

static void describe_gaps(const uint8_t *body, size_t len, size_t count,
                          struct tern_codec_info *info)
{
    if (!TERN_FOR_PEOPLE) {
        tern_ternary_describe(body, 1, 0, info);
        return;
    }
    struct reader reader = open_reader(body, len, count);
    tern_ternary_describe(body, tern_indices_count(find_indices, &reader), 0, info);
}

const struct tern_mode tern_ternary_gaps_mode = {
    .byte = TERN_MODE_TERNARY_GAPS,
    .ternary = true,
    .name = "ternary-gaps",
    .check = check_gaps,
    .decode = decode_gaps,
    .accumulate = accumulate_gaps,
    .describe = describe_gaps,
    .each = TERN_SMALL ? NULL : each_gaps,
};
