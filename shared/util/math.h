// Arithmetic with the same bits on every platform: exp, log, sin, cos and square root in plain float arithmetic, because
// those of a libm differ between platforms in the last bit and a model's weights must not. Except for the square root,
// each is a range reduction and a short polynomial, within about two units in the last place of the true value over its
// range. Pure; reentrant.
#ifndef TERN_UTIL_MATH_H
#define TERN_UTIL_MATH_H

#include <stdint.h>

// --- Conversion between numbers and their bits

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

// --- Functions

// Returns true if value is neither NaN nor infinite.
static inline int tern_is_finite(float value)
{
    return (tern_float_bits(value) & 0x7F800000u) != 0x7F800000u;
}

// Rounds to the nearest whole number, ties away from zero. |x| < 2^31.
static inline int32_t tern_round_to_int(float x)
{
    return (int32_t)(x < 0.0f ? x - 0.5f : x + 0.5f);
}

// e^x. 0 below -87 (the result would be subnormal), infinity above 88.72, NaN for NaN.
static inline float tern_expf(float x)
{
    if (!(x >= -87.0f)) {
        return x < -87.0f ? 0.0f : x;
    }
    if (x > 88.72f) {
        return tern_bits_float(0x7F800000u);
    }
    // x = n * ln 2 + r with |r| <= ln 2 / 2. The first part of ln 2 has so few bits that its
    // product with n is exact.
    int32_t n = tern_round_to_int(x * 1.44269504f);
    float r = (x - (float)n * 0.693359375f) - (float)n * -2.12194440e-4f;
    float p = 1.0f / 720.0f + r * (1.0f / 5040.0f);
    p = 1.0f / 120.0f + r * p;
    p = 1.0f / 24.0f + r * p;
    p = 1.0f / 6.0f + r * p;
    p = 0.5f + r * p;
    p = 1.0f + (r + r * r * p);
    // Multiplies by 2^n in two factors, because float32 cannot hold 2^128.
    int32_t half = n / 2;
    float scale = tern_bits_float((uint32_t)(half + 127) << 23);
    float rest = tern_bits_float((uint32_t)(n - half + 127) << 23);
    return p * scale * rest;
}

// Natural logarithm of a finite x > 0. Values below the smallest normal number count as that
// number.
static inline float tern_logf(float x)
{
    uint32_t bits = tern_float_bits(x > 1.17549435e-38f ? x : 1.17549435e-38f);
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    float m = tern_bits_float((bits & 0x007FFFFFu) | 0x3F800000u);
    if (m > 1.41421356f) {
        m *= 0.5f;
        exponent++;
    }
    // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
    float s = (m - 1.0f) / (m + 1.0f);
    float z = s * s;
    float p = 1.0f / 9.0f + z * (1.0f / 11.0f);
    p = 1.0f / 7.0f + z * p;
    p = 1.0f / 5.0f + z * p;
    p = 1.0f / 3.0f + z * p;
    float log_m = 2.0f * (s + s * z * p);
    return (float)exponent * 0.693359375f + (log_m + (float)exponent * -2.12194440e-4f);
}

// sin(2 pi turns) for |turns| < 2^20.
static inline float tern_sin_turns(float turns)
{
    float t = turns - (float)tern_round_to_int(turns); // [-0.5, 0.5], exact
    if (t > 0.25f) {
        t = 0.5f - t;
    } else if (t < -0.25f) {
        t = -0.5f - t;
    }
    float x = t * 6.28318531f; // [-pi/2, pi/2]
    float z = x * x;
    float p = 1.0f / 362880.0f - z * (1.0f / 39916800.0f);
    p = -1.0f / 5040.0f + z * p;
    p = 1.0f / 120.0f + z * p;
    p = -1.0f / 6.0f + z * p;
    return x + x * z * p;
}

static inline float tern_cos_turns(float turns)
{
    float t = turns - (float)tern_round_to_int(turns);
    return tern_sin_turns(t + 0.25f);
}

// Square root, correctly rounded (to nearest, ties to even). 0 for x <= 0 and for NaN; infinity for
// infinity.
double tern_sqrt(double x);

#endif
