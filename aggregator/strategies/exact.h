// Sums of float32 numbers without any rounding, so that it does not matter in which order, by whom
// and in how many parts they are added up: Demmel and Nguyen, "Parallel Reproducible Summation"
// (IEEE Trans. Computers 64, 2015), bin numbers by their exponents, too, and there the bins are
// floats. Who uses it: the totals of a round, and the weighted mean (merge/exact_mean.h). Pure; the
// caller owns all memory.
//
// A finite float32 is m * 2^(e - 149) with a whole m below 2^24 and 0 <= e <= 253. It goes into bin
// e / 16 as m << e % 16, which is below 2^39, and a negative one is taken away from there. So as many
// as TERN_EXACT_TERMS_MAX numbers leave the magnitude of each bin below 2^63, and what a bin holds is
// exactly the sum of the numbers that belong into it. Bins are added to with uint64_t, whose
// overflow C defines, and read as two's complement.
//
// So partial sums of any division of the numbers, added up bin by bin in any order, are the same bits as one
// sum of them all: additions of uint64_t are those of whole numbers modulo 2^64, which are associative
// and commutative, and as long as all parts together have no more than TERN_EXACT_TERMS_MAX numbers,
// each bin of the whole is below 2^63 in magnitude, of which its residue is the two's complement. A part may
// even wrap on the way, as where numbers are taken away that another one has added.
#ifndef TERN_EXACT_H
#define TERN_EXACT_H

#include "util/float_bits.h"
#include <stdbool.h>
#include <stdint.h>

#define TERN_EXACT_SHIFTS 16
#define TERN_EXACT_BINS 16
#define TERN_EXACT_TERMS_MAX (UINT32_C(1) << 24)

// What a number adds to one bin.
struct tern_exact_term {
    unsigned bin; // TERN_EXACT_BINS or above: the number is not finite
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

// What one of a bin stands for.
static inline double tern_exact_unit(unsigned bin)
{
    static const double units[TERN_EXACT_BINS] = {
        0x1p-149, 0x1p-133, 0x1p-117, 0x1p-101, 0x1p-85, 0x1p-69, 0x1p-53, 0x1p-37,
        0x1p-21,  0x1p-5,   0x1p11,   0x1p27,   0x1p43,  0x1p59,  0x1p75,  0x1p91};
    return units[bin];
}

// The numbers of a bin have bits, without the sign, from here to where those of the next bin begin, the
// last one's up to those of infinity. 0 is among those of bin 0. bin: TERN_EXACT_BINS at most.
static inline uint32_t tern_exact_begin(unsigned bin)
{
    if (bin == 0) {
        return 0;
    }
    return bin < TERN_EXACT_BINS ? ((uint32_t)TERN_EXACT_SHIFTS * bin + 1) << 23 : 0x7f800000;
}

// What a number of the bin adds to it, or 0, in a way that compilers do for several at once: number /
// unit is whole and below 2^39, and 3 * 2^51 more of it has it in its last bits. per_unit: 1 / unit,
// a power of two, so that the product is exact.
static inline uint64_t tern_exact_amount(float number, double per_unit)
{
    const double much = 0x1.8p52;
    return tern_double_bits((double)number * per_unit + much) - tern_double_bits(much);
}

// What a bin holds. Each is rounded to a double once; who adds up several goes from the lowest to
// the highest, so that it gives the same bits everywhere.
static inline double tern_exact_of(unsigned bin, uint64_t held)
{
    return (double)(int64_t)held * tern_exact_unit(bin);
}

#endif
