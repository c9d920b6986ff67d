// The kernels of one instruction set, and the sets there are. Only the files of this folder and
// tests include this; everybody else calls kernels.h. All sets give the same bits.
#ifndef TERN_PATHS_H
#define TERN_PATHS_H

#include "codec/kernels/kernels.h"
#include "codec/kernels/steps.h"

// A board's compiler knows its processor; only hosted programs have to ask at run time.
#if defined(__x86_64__) && __STDC_HOSTED__
#define TERN_KERNELS_X86 1
#else
#define TERN_KERNELS_X86 0
#endif

// Part of every AArch64 processor. Not for 32-bit ARM, whose NEON flushes subnormals to zero.
#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && __STDC_HOSTED__
#define TERN_KERNELS_NEON 1
#else
#define TERN_KERNELS_NEON 0
#endif

// Processors whose compiler finds no vectors: there the scalar kernels run. Hosted programs build
// them, too, for tests.
#ifdef TERN_KERNELS_SCALAR // as the build says, to compare
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

// Magnitudes as bits, both included (select.c).
struct tern_bracket {
    uint32_t low;
    uint32_t high;
};

// value * first * second, where the two are the power of two that makes units of values (mean.c, steps.c).
// One alone may exceed float32. Products are exact but for results below 1, which are cut to 0.
struct tern_units {
    float first;
    float second;
};

enum { TERN_FLOAT_BIAS = 127, TERN_DOUBLE_BIAS = 1023 };

// E with 2^E <= peak < 2^(E + 1). Every float32 that is not 0 is normal as a float64.
static inline int tern_exponent_of(float peak)
{
    return (int)(tern_double_bits((double)peak) >> 52) - TERN_DOUBLE_BIAS;
}

// 2^exponent, of a normal float32 and of a normal float64.
static inline float tern_float_power(int exponent)
{
    return tern_bits_float((uint32_t)(exponent + TERN_FLOAT_BIAS) << 23);
}

static inline double tern_double_power(int exponent)
{
    return tern_bits_double((uint64_t)(exponent + TERN_DOUBLE_BIAS) << 52);
}

// Units of 2^-bits of the peak's power of two; bits < 32.
static inline struct tern_units tern_units_of(int peak_exponent, int bits)
{
    int shift = bits - peak_exponent;
    int first = shift > TERN_FLOAT_BIAS ? TERN_FLOAT_BIAS : shift;
    return (struct tern_units){.first = tern_float_power(first),
                               .second = tern_float_power(shift - first)};
}

// steps.h, with the units of the peak.
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
    uint64_t units; // whole ones of each value
    uint64_t taken; // values
};

// Fields are what kernels.h says of tern_kernel_FIELD(), and what is said below.
struct tern_kernels {
    const char *name;
#define VALUE(scalar, type, name, parameters, arguments) type(*name) parameters;
#define NOTHING(scalar, name, parameters, arguments) void(*name) parameters;
#include "codec/kernels/kernels.def"
#undef VALUE
#undef NOTHING
    void (*finish)(void); // orders streamed stores before later ones; NULL: nothing to do
};

#define TERN_SUM_BLOCK ((size_t)1 << 15) // values whose sum fits 32 bits twice

// --- What only this folder calls

// Bit i % 64 of above[i / 64] and equal[i / 64]: how the magnitude of value i compares with `bits`.
// 64 * words values.
void tern_kernel_compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                         uint64_t *equal);

// Collects the magnitudes in the bracket, in order. Returns their number, or `room` when it may be
// too many; *above: those above the bracket.
size_t tern_kernel_collect(const float *values, size_t count, struct tern_bracket bracket,
                           float *dst, size_t room, size_t *above);

// Of the values whose magnitude, as bits, is above `threshold`. count <= TERN_SUM_BLOCK.
struct tern_sum tern_kernel_sum_above(const float *values, size_t count, uint32_t threshold,
                                      struct tern_units units);

// steps.h, over all values. count < 2^32.
struct tern_step_sums tern_kernel_step_sums(const float *values, size_t count,
                                            struct tern_units units, uint32_t rate);
void tern_kernel_step_split(float *values, size_t count, struct tern_step_split split,
                            int16_t *steps);

// --- The sets

extern const struct tern_kernels tern_kernels_portable;
extern const struct tern_kernels tern_kernels_scalar;
#if TERN_KERNELS_X86
extern const struct tern_kernels tern_kernels_avx2;
#endif
#if TERN_KERNELS_NEON
extern const struct tern_kernels tern_kernels_neon;
#endif

// Plain C, which sets with nothing faster take over: tern_portable_NAME(); and for one value at a
// time tern_scalar_NAME() (scalar.c), where the list says so.
#define VALUE(scalar, type, name, parameters, arguments)                                           \
    type tern_portable_##name parameters;                                                          \
    type tern_##scalar##_##name parameters;
#define NOTHING(scalar, name, parameters, arguments)                                               \
    VALUE(scalar, void, name, parameters, arguments)
#include "codec/kernels/kernels.def"
#undef VALUE
#undef NOTHING

// --- What the sets share

static inline size_t tern_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Columns of which all five values exist: only the last four may lack some.
static inline size_t tern_whole_columns(const struct tern_columns *columns)
{
    size_t before_last = (TERN_TERNARY_PARTS - 1) * tern_packed_stride(columns->count);
    size_t whole = columns->count > before_last ? columns->count - before_last : 0;
    return whole > columns->first ? tern_smaller(columns->len, whole - columns->first) : 0;
}

// Values of one part of a block that exist.
static inline size_t tern_part_length(const struct tern_ternary_target *target, size_t part,
                                      size_t len)
{
    size_t before_end = (size_t)(target->end - target->at);
    size_t offset = part * target->stride;
    return offset < before_end ? tern_smaller(len, before_end - offset) : 0;
}

#endif
