#include "codec/kernels/paths.h"

enum { WORD_BITS = 64 };

// Quantizes up to 64 values into one word of each plane.
static void split_word(float *values, size_t len, float scale, uint32_t threshold,
                       uint64_t *nonzero_word, uint64_t *negative_word)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    uint64_t nonzero = 0;
    uint64_t negative = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        uint32_t sign = bits & TERN_SIGN_BIT;
        uint32_t selected = (bits ^ sign) > threshold ? ~0u : 0u;
        nonzero |= (uint64_t)(selected & 1) << i;
        negative |= (uint64_t)(selected & sign >> 31) << i;
        values[i] -= tern_bits_float((scale_bits | sign) & selected);
    }
    *nonzero_word = nonzero;
    *negative_word = negative;
}

void tern_portable_planes_split(float *values, float scale, uint32_t threshold,
                                struct tern_planes planes)
{
    for (size_t at = 0, word = 0; at < planes.count; at += WORD_BITS, word++) {
        split_word(values + at, tern_smaller(WORD_BITS, planes.count - at), scale, threshold,
                   &planes.nonzero[word], &planes.negative[word]);
    }
}

static inline float symbol_value(const struct tern_planes *planes, size_t at, float scale)
{
    uint32_t negative = (uint32_t)(planes->negative[at / WORD_BITS] >> at % WORD_BITS & 1);
    return tern_bits_float(tern_float_bits(scale) ^ negative << 31);
}

void tern_portable_planes_add(struct tern_planes planes, float scale, float *values)
{
    for (size_t word = 0; word < tern_plane_words(planes.count); word++) {
        for (uint64_t left = planes.nonzero[word]; left != 0; left &= left - 1) {
            size_t at = word * WORD_BITS + (size_t)__builtin_ctzll(left);
            values[at] += symbol_value(&planes, at, scale);
        }
    }
}

void tern_portable_planes_set(struct tern_planes planes, float scale, float *values)
{
    __builtin_memset(values, 0, planes.count * sizeof *values);
    tern_portable_planes_add(planes, scale, values);
}
