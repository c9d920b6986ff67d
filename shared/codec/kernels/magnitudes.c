// Kernels that compare magnitudes (floats without their sign) as integers, for select.c.
#include "codec/kernels/paths.h"

enum {
    BLOCK = 32, // values that are compared together
    TERN_WORD = 64,
};

// Returns the number of magnitudes above the bracket. *inside: nonzero if any is in the bracket. Compares signed, because SSE2
// has no other comparison.
static uint32_t look_at_block(const float values[BLOCK], struct tern_bracket bracket,
                              uint32_t *inside)
{
    int32_t low = (int32_t)bracket.low;
    int32_t high = (int32_t)bracket.high;
    uint32_t above = 0;
    uint32_t any = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        int32_t magnitude = (int32_t)magnitude_at(values, i);
        above += magnitude > high;
        any |= (uint32_t)(magnitude >= low) & (uint32_t)(magnitude <= high);
    }
    *inside = any;
    return above;
}

static size_t collect_block(const float *values, size_t len, struct tern_bracket bracket,
                            float *dst)
{
    size_t have = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t magnitude = magnitude_at(values, i);
        dst[have] = tern_bits_float(magnitude);
        have += magnitude >= bracket.low && magnitude <= bracket.high;
    }
    return have;
}

size_t tern_portable_collect(const float *values, size_t count, struct tern_bracket bracket,
                             float *dst, size_t room, size_t *above)
{
    size_t have = 0;
    size_t i = 0;
    *above = 0;
    for (; count - i >= BLOCK && room - have > BLOCK; i += BLOCK) {
        uint32_t inside = 0;
        *above += look_at_block(values + i, bracket, &inside);
        if (inside != 0) {
            have += collect_block(values + i, BLOCK, bracket, dst + have);
        }
    }
    if (room - have <= BLOCK) {
        return room;
    }
    for (size_t rest = i; rest < count; rest++) {
        *above += magnitude_at(values, rest) > bracket.high;
    }
    return have + collect_block(values + i, count - i, bracket, dst + have);
}

void tern_portable_compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                           uint64_t *equal)
{
    for (size_t word = 0; word < words; word++, values += TERN_WORD) {
        uint64_t is_above = 0;
        uint64_t is_equal = 0;
        for (size_t i = 0; i < TERN_WORD; i++) {
            uint32_t magnitude = magnitude_at(values, i);
            is_above |= (uint64_t)(magnitude > bits) << i;
            is_equal |= (uint64_t)(magnitude == bits) << i;
        }
        above[word] = is_above;
        equal[word] = is_equal;
    }
}
