// The versions of the kernels, one for each instruction set, and what they share. All give the same bits. Only the files of
// this folder and tests include this header.
#ifndef TERN_PATHS_H
#define TERN_PATHS_H

#include "codec/kernels/kernels.h"
#include "codec/kernels/steps.h"

// Hosted programs ask the processor at run time; the compiler of a board has the processor as a constant.
#if defined(__x86_64__) && __STDC_HOSTED__
#define TERN_KERNELS_X86 1
#else
#define TERN_KERNELS_X86 0
#endif

// Every AArch64 processor has NEON. 32-bit ARM cannot use it, because its NEON flushes subnormals to zero.
#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && __STDC_HOSTED__
#define TERN_KERNELS_NEON 1
#else
#define TERN_KERNELS_NEON 0
#endif

// Processors without vectors use the scalar kernels. Hosted programs contain them for tests.
#ifdef TERN_KERNELS_SCALAR // set by the build, for measurements
#elif (defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M' && !defined(__ARM_FEATURE_MVE)) || \
    defined(__SOFTFP__) || defined(__riscv_float_abi_soft)
#define TERN_KERNELS_SCALAR 1
#else
#define TERN_KERNELS_SCALAR 0
#endif

static inline uint32_t magnitude_at(const float *values, size_t i)
{
    return tern_float_bits(values[i]) & ~TERN_SIGN_BIT;
}

// A range of magnitudes, as bits, both ends included (select.c).
struct tern_bracket {
    uint32_t low;
    uint32_t high;
};

// The power of two that converts values to units, as two factors, because the power itself may exceed float32 (mean.c,
// steps.c). Products are exact, except that results below 1 become 0.
struct tern_units {
    float first;
    float second;
};

enum { TERN_FLOAT_BIAS = 127, TERN_DOUBLE_BIAS = 1023 };

// Returns E with 2^E <= peak < 2^(E + 1). peak: not 0; also a subnormal float32 is normal as a float64.
static inline int tern_exponent_of(float peak)
{
    return (int)(tern_double_bits((double)peak) >> 52) - TERN_DOUBLE_BIAS;
}

// Return 2^exponent, which is a normal float32, or a normal float64.
static inline float tern_float_power(int exponent)
{
    return tern_bits_float((uint32_t)(exponent + TERN_FLOAT_BIAS) << 23);
}

static inline double tern_double_power(int exponent)
{
    return tern_bits_double((uint64_t)(exponent + TERN_DOUBLE_BIAS) << 52);
}

// Returns units of 2^-bits of the peak's power of two; bits < 32.
static inline struct tern_units tern_units_of(int peak_exponent, int bits)
{
    int shift = bits - peak_exponent;
    int first = shift > TERN_FLOAT_BIAS ? TERN_FLOAT_BIAS : shift;
    return (struct tern_units){.first = tern_float_power(first),
                               .second = tern_float_power(shift - first)};
}

// struct tern_steps (steps.h) with the peak's units.
struct tern_step_split {
    struct tern_units units;
    uint32_t rate;
    float scale;
};

#define TERN_STEP_ROUND 439804651110u // 0.4 * 2^40

static inline uint32_t tern_steps_of(uint32_t units, uint32_t rate)
{
    return (uint32_t)(((uint64_t)units * rate + TERN_STEP_ROUND) >> TERN_STEP_RATE_BITS);
}

struct tern_sum {
    uint64_t units; // sum of the values, each rounded down to whole units
    uint64_t taken; // number of values
};

// One version. Each field is the function that tern_kernel_FIELD() calls.
struct tern_kernels {
    const char *name;
#define VALUE(scalar, type, name, parameters, arguments) type(*name) parameters;
#define NOTHING(scalar, name, parameters, arguments) void(*name) parameters;
#include "codec/kernels/kernels.def"
#undef VALUE
#undef NOTHING
    void (*finish)(void); // orders streamed stores before later ones; NULL: nothing to do
};

#define TERN_SUM_BLOCK ((size_t)1 << 15) // the sum of so many 16-bit halves fits 32 bits

// --- Kernels for this folder only

// Compares the magnitudes of 64 * words values with `bits`: sets bit i % 64 of above[i / 64] if value i is above, and of
// equal[i / 64] if it is equal.
void tern_kernel_compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                         uint64_t *equal);

// Copies the magnitudes in the bracket to dst, in order. Returns their number, or `room` if dst may be too small. *above: the
// number of magnitudes above the bracket.
size_t tern_kernel_collect(const float *values, size_t count, struct tern_bracket bracket,
                           float *dst, size_t room, size_t *above);

// Returns the sum of the magnitudes whose bits are above `threshold`. count <= TERN_SUM_BLOCK.
struct tern_sum tern_kernel_sum_above(const float *values, size_t count, uint32_t threshold,
                                      struct tern_units units);

// Like tern_steps_sum() with stride 1, and tern_steps_split() (steps.h). count < 2^32.
struct tern_step_sums tern_kernel_step_sums(const float *values, size_t count,
                                            struct tern_units units, uint32_t rate);
void tern_kernel_step_split(float *values, size_t count, struct tern_step_split split,
                            int16_t *steps);

// --- The versions

extern const struct tern_kernels tern_kernels_portable;
extern const struct tern_kernels tern_kernels_scalar;
#if TERN_KERNELS_X86
extern const struct tern_kernels tern_kernels_avx2;
#endif
#if TERN_KERNELS_NEON
extern const struct tern_kernels tern_kernels_neon;
#endif

// Declares tern_portable_NAME(), which other versions use where they have nothing faster, and tern_scalar_NAME() (scalar.c).
#define VALUE(scalar, type, name, parameters, arguments)                                           \
    type tern_portable_##name parameters;                                                          \
    type tern_##scalar##_##name parameters;
#define NOTHING(scalar, name, parameters, arguments)                                               \
    VALUE(scalar, void, name, parameters, arguments)
#include "codec/kernels/kernels.def"
#undef VALUE
#undef NOTHING

// --- Shared by the versions

static inline size_t tern_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Returns the number of columns (packed bytes) of which all five values exist; only the last four may lack some.
static inline size_t tern_whole_columns(const struct tern_columns *columns)
{
    size_t before_last = (TERN_TERNARY_PARTS - 1) * tern_packed_stride(columns->count);
    size_t whole = columns->count > before_last ? columns->count - before_last : 0;
    return whole > columns->first ? tern_smaller(columns->len, whole - columns->first) : 0;
}

// Returns the number of existing values in one part of a block.
static inline size_t tern_part_length(const struct tern_ternary_target *target, size_t part,
                                      size_t len)
{
    size_t before_end = (size_t)(target->end - target->at);
    size_t offset = part * target->stride;
    return offset < before_end ? tern_smaller(len, before_end - offset) : 0;
}

#endif
