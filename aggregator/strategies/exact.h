// Sums float32 numbers without rounding, so that neither their order nor a division into partial sums matters. As in
// Demmel and Nguyen, "Parallel Reproducible Summation" (IEEE Trans. Computers 64, 2015), each number goes into a bin by its
// exponent; here bins are integers. Used by the totals of a round and by the weighted mean (merge/exact_mean.h). Pure; the
// caller owns all memory.
//
// A finite float32 is m * 2^(e - 149) with an integer m below 2^24 and 0 <= e <= 253. It adds m << e % 16, which is below
// 2^39, to bin e / 16, or subtracts it if negative. So after TERN_EXACT_TERMS_MAX numbers the magnitude of each bin is
// still below 2^63, and each bin is exactly the sum of its numbers. Bins are uint64_t, whose overflow C defines, and are
// read as two's complement.
//
// Partial sums, added bin by bin in any order, have the same bits as one sum of all numbers: uint64_t adds integers modulo
// 2^64, which is associative and commutative. A partial sum may wrap, such as where it subtracts what another one added.
// Only the whole must stay within TERN_EXACT_TERMS_MAX numbers.
#ifndef TERN_EXACT_H
#define TERN_EXACT_H

#include "util/math.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_EXACT_SHIFTS 16
#define TERN_EXACT_BINS 16
#define TERN_EXACT_TERMS_MAX (UINT32_C(1) << 24)

// The integer that a number adds to one bin.
struct tern_exact_term {
    unsigned bin; // index of the bin; TERN_EXACT_BINS or above: the number is not finite
    uint64_t amount;
};

static inline struct tern_exact_term tern_exact_term(float number)
{
    const uint32_t bits = tern_float_bits(number);
    const uint32_t exponent = bits >> 23 & 0xff;
    const uint32_t normal = exponent != 0;
    const uint64_t m = (bits & 0x7fffff) | normal << 23;
    const uint32_t e = exponent - normal;
    const uint64_t negative = 0 - (uint64_t)(bits >> 31);
    const uint64_t amount = m << e % TERN_EXACT_SHIFTS;
    return (struct tern_exact_term){.bin =
                                        exponent == 0xff ? TERN_EXACT_BINS : e / TERN_EXACT_SHIFTS,
                                    .amount = (amount ^ negative) - negative};
}

// Returns the value that the integer 1 has in a bin.
static inline double tern_exact_bin_unit(unsigned bin)
{
    static const double units[TERN_EXACT_BINS] = {
        0x1p-149, 0x1p-133, 0x1p-117, 0x1p-101, 0x1p-85, 0x1p-69, 0x1p-53, 0x1p-37,
        0x1p-21,  0x1p-5,   0x1p11,   0x1p27,   0x1p43,  0x1p59,  0x1p75,  0x1p91};
    return units[bin];
}

// Returns the smallest bit pattern of a float, without the sign, that belongs to the bin. The next bin begins where the
// bin ends, and infinity after the last bin. 0 belongs to bin 0. bin: at most TERN_EXACT_BINS.
static inline uint32_t tern_exact_bin_start(unsigned bin)
{
    if (bin == 0) {
        return 0;
    }
    return bin < TERN_EXACT_BINS ? ((uint32_t)TERN_EXACT_SHIFTS * bin + 1) << 23 : 0x7f800000;
}

// Returns the integer that a number of the bin, or 0, adds to the bin, in a form that compilers vectorise: number /
// unit is an integer below 2^39, and adding 3 * 2^51 moves the integer into the last bits of the double. per_unit: 1 /
// unit, a power of two, so that the product is exact.
static inline uint64_t tern_exact_amount(float number, double per_unit)
{
    const double much = 0x1.8p52;
    return tern_double_bits((double)number * per_unit + much) - tern_double_bits(much);
}

// Returns the value of a bin's integer, rounded to a double once. To get the same bits everywhere, add several bins
// from the lowest to the highest.
static inline double tern_exact_bin_value(unsigned bin, uint64_t held)
{
    return (double)(int64_t)held * tern_exact_bin_unit(bin);
}

#endif
