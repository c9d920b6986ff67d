#include "codec/kernels/paths.h"

#include <string.h>

// Quantizes the values of one of the five parts and appends their digits: packed = 3 * packed + digit, where digit = q + 1.
static void pack_part(float *restrict values, size_t len, float scale, uint32_t threshold,
                      uint8_t *restrict packed)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    for (size_t i = 0; i < len; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        uint32_t sign = bits & TERN_SIGN_BIT;
        int32_t magnitude = (int32_t)(bits ^ sign);
        uint32_t selected = magnitude > (int32_t)threshold ? ~0u : 0u;
        uint32_t digit = 1 + (selected & (1 - (sign >> 30)));
        packed[i] = (uint8_t)(3 * packed[i] + digit);
        // scale * q: the scale's bits with the sign, or +0.
        values[i] -= tern_bits_float((scale_bits | sign) & selected);
    }
}

static void pack_padding(uint8_t *packed, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        packed[i] = (uint8_t)(3 * packed[i] + 1);
    }
}

// Packs at most TERN_TERNARY_BLOCK bytes.
static void pack_block(struct tern_columns columns, float scale, uint32_t threshold,
                       uint8_t *packed)
{
    size_t stride = tern_packed_stride(columns.count);
    memset(packed, 0, columns.len);
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        size_t begin = part * stride + columns.first;
        size_t real = begin < columns.count ? tern_smaller(columns.len, columns.count - begin) : 0;
        if (real > 0) {
            pack_part(columns.values + begin, real, scale, threshold, packed);
        }
        pack_padding(packed + real, columns.len - real);
    }
}

void tern_portable_ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                                uint8_t *packed)
{
    struct tern_columns block = columns;
    for (size_t done = 0; done < columns.len; done += block.len) {
        block.first = columns.first + done;
        block.len = tern_smaller(TERN_TERNARY_BLOCK, columns.len - done);
        pack_block(block, scale, threshold, packed + done);
    }
}

// Returns f = ceil(256 v / 243): the first five base-3 digits of f / 256 are the digits of the byte v, so that each
// multiplication by 3 shifts the next digit out at the top. The quotient is exact for v < 243.
static inline uint8_t fraction_of(uint8_t v)
{
    uint16_t dividend = (uint16_t)(13 * v + TERN_TERNARY_LIMIT - 1);
    return (uint8_t)(v + (((uint32_t)dividend * 270) >> 16));
}

// Returns the next digit, 0 to 2: floor(3 f / 256).
static inline uint8_t top_digit(uint8_t fraction)
{
    return (uint8_t)((fraction > 85) + (fraction > 170));
}

static void fractions_of(const uint8_t *restrict packed, size_t len, uint8_t *restrict fractions)
{
    for (size_t i = 0; i < len; i++) {
        fractions[i] = fraction_of(packed[i]);
    }
}

static void set_part(uint8_t *restrict fractions, size_t len, float scale, float *restrict values)
{
    for (size_t i = 0; i < len; i++) {
        values[i] = scale * (float)(top_digit(fractions[i]) - 1);
        fractions[i] = (uint8_t)(3 * fractions[i]);
    }
}

// Adds -0 where q is 0, because adding +0 would turn -0 into +0.
static void add_part(uint8_t *restrict fractions, size_t len, float scale, float *restrict values)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    for (size_t i = 0; i < len; i++) {
        int32_t q = top_digit(fractions[i]) - 1;
        uint32_t nonzero = q != 0 ? ~0u : 0u;
        uint32_t flip = q > 0 ? 0u : TERN_SIGN_BIT;
        values[i] += tern_bits_float((scale_bits & nonzero) ^ flip);
        fractions[i] = (uint8_t)(3 * fractions[i]);
    }
}

void tern_portable_ternary_set(const uint8_t *packed, size_t len, float scale,
                               struct tern_ternary_target target)
{
    uint8_t fractions[TERN_TERNARY_BLOCK_ROOM];
    fractions_of(packed, len, fractions);
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        size_t real = tern_part_length(&target, part, len);
        if (real > 0) {
            set_part(fractions, real, scale, target.at + part * target.stride);
        }
    }
}

void tern_portable_ternary_add(const uint8_t *packed, size_t len, float scale,
                               struct tern_ternary_target target)
{
    uint8_t fractions[TERN_TERNARY_BLOCK_ROOM];
    fractions_of(packed, len, fractions);
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        size_t real = tern_part_length(&target, part, len);
        if (real > 0) {
            add_part(fractions, real, scale, target.at + part * target.stride);
        }
    }
}

// For each byte, the number of digits that are not 1 (q is not 0); 0 for run codes. Each macro prepends a digit.
#define DIGITS_1(n) (n) + 1, (n), (n) + 1
#define DIGITS_2(n) DIGITS_1((n) + 1), DIGITS_1(n), DIGITS_1((n) + 1)
#define DIGITS_3(n) DIGITS_2((n) + 1), DIGITS_2(n), DIGITS_2((n) + 1)
#define DIGITS_4(n) DIGITS_3((n) + 1), DIGITS_3(n), DIGITS_3((n) + 1)
#define DIGITS_5(n) DIGITS_4((n) + 1), DIGITS_4(n), DIGITS_4((n) + 1)

static const uint8_t nonzero_of[256] = {DIGITS_5(0)};

size_t tern_portable_ternary_nonzero(const uint8_t *coded, size_t len)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < len; i++) {
        nonzero += nonzero_of[coded[i]];
    }
    return nonzero;
}
