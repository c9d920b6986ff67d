#include "codec/kernels/select.h"

#include "codec/kernels/kernels.h"
#include <string.h>

enum { MILLION = 1000000, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

size_t tern_select_count(float density, size_t count)
{
    uint64_t millionths = (uint64_t)((double)density * MILLION + 0.5);
    return (size_t)((count * millionths + MILLION - 1) / MILLION);
}

static inline uint32_t magnitude_at(const float *values, size_t i)
{
    return tern_float_bits(values[i]) & ~TERN_SIGN_BIT;
}

// A digit of a magnitude, which has 31 bits.
struct digit {
    unsigned shift;
    unsigned width;
};

// Counts the digits of the magnitudes whose higher bits are `prefix`.
static void count_digits(const float *values, size_t count, uint32_t prefix, struct digit digit,
                         size_t histogram[DIGITS])
{
    uint32_t mask = (1u << digit.width) - 1;
    memset(histogram, 0, DIGITS * sizeof *histogram);
    for (size_t i = 0; i < count; i++) {
        uint32_t top = magnitude_at(values, i) >> digit.shift;
        if (top >> digit.width == prefix) {
            histogram[top & mask]++;
        }
    }
}

// A radix search from the exponent down: each pass fixes another digit of the k-th magnitude.
struct tern_selection tern_kernel_select(const float *values, size_t count, size_t k)
{
    static const struct digit digits[] = {{23, 8}, {15, 8}, {7, 8}, {0, 7}};
    size_t histogram[DIGITS];
    size_t wanted = k; // of the magnitudes with this prefix
    uint32_t prefix = 0;
    for (unsigned pass = 0; pass < sizeof digits / sizeof digits[0]; pass++) {
        count_digits(values, count, prefix, digits[pass], histogram);
        uint32_t digit = (1u << digits[pass].width) - 1;
        for (; histogram[digit] < wanted; digit--) {
            wanted -= histogram[digit];
        }
        prefix = prefix << digits[pass].width | digit;
    }
    if (prefix == 0) {
        // The k-th is a zero, which is never sent.
        return (struct tern_selection){.bits = 0, .ties = 0, .selected = k - wanted};
    }
    return (struct tern_selection){.bits = prefix, .ties = wanted, .selected = k};
}

// The bits of a word that are the first `wanted` ones of `candidates`.
static uint64_t first_bits(uint64_t candidates, size_t *wanted)
{
    uint64_t taken = 0;
    for (; candidates != 0 && *wanted > 0; (*wanted)--) {
        uint64_t lowest = candidates & (~candidates + 1);
        taken |= lowest;
        candidates ^= lowest;
    }
    return taken;
}

void tern_kernel_select_mark(const float *values, size_t count, struct tern_selection selection,
                             uint64_t *words)
{
    enum { WORD = 64 };
    for (size_t start = 0; start < count; start += WORD) {
        size_t here = count - start < WORD ? count - start : WORD;
        uint64_t above = 0;
        uint64_t equal = 0;
        for (size_t i = 0; i < here; i++) {
            uint32_t magnitude = magnitude_at(values, start + i);
            above |= (uint64_t)(magnitude > selection.bits) << i;
            equal |= (uint64_t)(magnitude == selection.bits) << i;
        }
        words[start / WORD] = above | first_bits(equal, &selection.ties);
    }
}
