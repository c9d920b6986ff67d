#include "util/math.h"

#include <stdint.h>

union word {
    double value;
    uint64_t bits;
};

enum { FRACTION_BITS = 52, BIAS = 1023 };

// Returns the first 54 bits of the square root of m * 2^54, followed by a sticky bit that is 1 if
// the rest is not 0. 53 bits are the result's mantissa; the last bit and the sticky bit determine
// the rounding.
static uint64_t root_bits(uint64_t m)
{
    uint64_t root = 0;
    uint64_t rest = 0;
    for (int i = 0; i < 54; i++) {
        // Each step brings down two bits of m from the top: m has bits 53..0, zeros follow.
        rest = rest << 2 | (m >> 52 & 3);
        m = m << 2 & (((uint64_t)1 << 54) - 1);
        uint64_t trial = root << 2 | 1;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    return root << 1 | (rest != 0);
}

double tern_sqrt(double x)
{
    union word in = {.value = x};
    if (!(x > 0) || in.bits >> FRACTION_BITS == 0x7ff) {
        return x > 0 ? x : 0;
    }
    int exponent = (int)(in.bits >> FRACTION_BITS);
    uint64_t mantissa = in.bits & (((uint64_t)1 << FRACTION_BITS) - 1);
    if (exponent == 0) {
        exponent = 1; // subnormal
    } else {
        mantissa |= (uint64_t)1 << FRACTION_BITS;
    }
    while (mantissa >> FRACTION_BITS == 0) {
        mantissa <<= 1;
        exponent--;
    }
    int power = exponent - BIAS; // x = mantissa / 2^52 * 2^power
    if (power % 2 != 0) {
        mantissa <<= 1;
        power--;
    }
    // mantissa is in [2^52, 2^54), so its root has 54 bits before the sticky one.
    uint64_t root = root_bits(mantissa);
    uint64_t low = root & 3;
    root >>= 2;
    root += low == 3 || (low == 2 && (root & 1) != 0);
    // The root's leading bit adds one to the exponent field, and so does a carry of the rounding.
    union word out = {.bits = ((uint64_t)(power / 2 + BIAS - 1) << FRACTION_BITS) + root};
    return out.value;
}
