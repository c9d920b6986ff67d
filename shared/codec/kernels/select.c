#include "codec/kernels/kernels.h"

#include "codec/kernels/paths.h"
#include "util/math.h"
#include <string.h>

enum { MILLION = 1000000, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

size_t tern_select_count(float density, size_t count)
{
    uint64_t millionths = (uint64_t)((double)density * MILLION + 0.5);
    return (size_t)((count * millionths + MILLION - 1) / MILLION);
}

// A digit of a magnitude; a magnitude has 31 bits.
struct digit {
    unsigned shift;
    unsigned width;
};

// Counts how often each value of a digit occurs in the magnitudes whose higher bits are `prefix`.
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

// A radix search: each pass finds one more digit of the k-th magnitude, from the exponent down.
struct tern_selection tern_kernel_select(const float *values, size_t count, size_t k)
{
    static const struct digit digits[] = {{23, 8}, {15, 8}, {7, 8}, {0, 7}};
    size_t histogram[DIGITS];
    size_t wanted = k; // rank among the magnitudes with this prefix
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
        // The k-th magnitude is 0; zeros are never selected.
        return (struct tern_selection){.bits = 0, .ties = 0, .selected = k - wanted};
    }
    return (struct tern_selection){.bits = prefix, .ties = wanted, .selected = k};
}

// --- Many values

enum {
    FEW = 1 << 14,       // sampling does not pay below this number of values
    SAMPLE_LEAST = 4096, // minimum size of a sample
    SAMPLE_SHARE = 64,   // a sample has one value in so many
    DEVIATIONS = 3,      // the bounds are so many standard deviations from the expected rank
};

// Returns the bits of a sample's magnitude by rank; rank 1 is the largest.
static uint32_t sampled_bits(const float *sample, size_t len, size_t rank)
{
    return tern_kernel_select(sample, len, rank).bits;
}

// Returns the index of value i of a sample, one in each `step` values. Knuth's multiplicative hash spreads them, because the
// rows of a matrix are often a multiple of the step, and a regular sample would see only a few columns.
static size_t sampled_at(size_t i, size_t step)
{
    const uint32_t spread = (uint32_t)i * UINT32_C(2654435761);
    return i * step + (size_t)((uint64_t)spread * step >> 32);
}

static struct tern_bracket bracket_of(const float *values, size_t count, size_t k, float *sample,
                                      size_t len)
{
    size_t step = count / len;
    for (size_t i = 0; i < len; i++) {
        sample[i] = values[sampled_at(i, step)];
    }
    size_t rank = (size_t)((uint64_t)k * len / count);
    double variance = (double)rank * (double)(len - rank) / (double)len;
    size_t slack = (size_t)(DEVIATIONS * tern_sqrt(variance)) + DEVIATIONS;
    struct tern_bracket bracket = {.low = 0, .high = ~TERN_SIGN_BIT};
    if (rank + slack <= len) {
        bracket.low = sampled_bits(sample, len, rank + slack);
    }
    if (rank > slack) {
        bracket.high = sampled_bits(sample, len, rank - slack);
    }
    return bracket;
}

// Returns the aligned floats in a byte buffer. *room: their number.
static float *floats_in(void *bytes, size_t len, size_t *room)
{
    size_t skip = (0 - (uintptr_t)bytes) % sizeof(float);
    *room = len > skip ? (len - skip) / sizeof(float) : 0;
    return (float *)(void *)((uint8_t *)bytes + skip);
}

struct tern_selection tern_kernel_select_in(const float *values, size_t count, size_t k,
                                            void *bytes, size_t len)
{
    size_t room = 0;
    float *scratch = floats_in(bytes, len, &room);
    size_t sample = count / SAMPLE_SHARE > SAMPLE_LEAST ? count / SAMPLE_SHARE : SAMPLE_LEAST;
    if (count < FEW || room < sample) {
        return tern_kernel_select(values, count, k);
    }
    struct tern_bracket bracket = bracket_of(values, count, k, scratch, sample);
    size_t above = 0;
    size_t have = tern_kernel_collect(values, count, bracket, scratch, room, &above);
    if (have == room || above >= k || above + have < k) {
        return tern_kernel_select(values, count, k);
    }
    struct tern_selection selection = tern_kernel_select(scratch, have, k - above);
    selection.selected += above;
    return selection;
}

// --- Marks

enum { TERN_WORD = 64 };

// Returns the lowest `*wanted` bits of `candidates`, and reduces *wanted by their number.
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

// Marks the selected values of `count` words. Reduces *ties by the ties that were selected.
static void mark_words(const float *values, size_t count, uint32_t bits, size_t *ties,
                       uint64_t *words)
{
    enum { STEP = 16 };
    uint64_t equal[STEP];
    for (size_t done = 0; done < count; done += STEP) {
        size_t here = count - done < STEP ? count - done : STEP;
        tern_kernel_compare(values + done * TERN_WORD, here, bits, words + done, equal);
        for (size_t i = 0; i < here; i++) {
            words[done + i] |= first_bits(equal[i], ties);
        }
    }
}

void tern_kernel_select_mark(const float *values, size_t count, struct tern_selection selection,
                             uint64_t *words)
{
    size_t whole = count / TERN_WORD;
    size_t rest = count % TERN_WORD;
    mark_words(values, whole, selection.bits, &selection.ties, words);
    if (rest > 0) {
        // Zeros are never selected.
        float padded[TERN_WORD] = {0};
        memcpy(padded, values + whole * TERN_WORD, rest * sizeof(float));
        mark_words(padded, 1, selection.bits, &selection.ties, words + whole);
        words[whole] &= ~(~0ull << rest);
    }
}
