// A float32 or float64 and its bits, inline. Pure.
#ifndef TERN_FLOAT_BITS_H
#define TERN_FLOAT_BITS_H

#include <stdint.h>

static inline uint32_t tern_float_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } word = {.value = value};
    return word.bits;
}

static inline float tern_bits_float(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } word = {.bits = bits};
    return word.value;
}

static inline uint64_t tern_double_bits(double value)
{
    union {
        double value;
        uint64_t bits;
    } word = {.value = value};
    return word.bits;
}

static inline double tern_bits_double(uint64_t bits)
{
    union {
        uint64_t bits;
        double value;
    } word = {.bits = bits};
    return word.value;
}

#endif
