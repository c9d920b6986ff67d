// The kernels of one instruction set, and the sets there are. Only the files of this folder and
// tests include this; everybody else calls kernels.h. All sets give the same bits.
#ifndef TERN_PATHS_H
#define TERN_PATHS_H

#include "codec/kernels/kernels.h"

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

// Magnitudes as bits, both included (select.c).
struct tern_bracket {
    uint32_t low;
    uint32_t high;
};

// value * first * second, where the two are the power of two that makes units of values (mean.c).
// One alone may exceed float32. Products are exact but for results below 1, which are cut to 0.
struct tern_units {
    float first;
    float second;
};

struct tern_sum {
    uint64_t units; // whole ones of each value
    uint64_t taken; // values
};

// Fields are what kernels.h says of tern_kernel_FIELD(), and what is said here.
struct tern_kernels {
    const char *name;

    uint32_t (*peak)(const float *values, size_t count);
    uint32_t (*peak_bytes)(const uint8_t *src, size_t count);
    void (*float32_put)(const float *values, size_t count, uint8_t *dst);
    void (*float32_get)(const uint8_t *src, float *dst, size_t count);
    void (*float32_add)(const uint8_t *src, float weight, float *acc, size_t count);
    void (*float16_put)(float *values, size_t count, uint8_t *dst);
    void (*float16_get)(const uint8_t *src, float *dst, size_t count);
    void (*float16_add)(const uint8_t *src, float weight, float *acc, size_t count);
    uint16_t (*float16_peak)(const uint8_t *src, size_t count);

    void (*ternary_pack)(struct tern_columns columns, float scale, uint32_t threshold,
                         uint8_t *packed);
    void (*ternary_set)(const uint8_t *packed, size_t len, float scale,
                        struct tern_ternary_target target);
    void (*ternary_add)(const uint8_t *packed, size_t len, float scale,
                        struct tern_ternary_target target);
    size_t (*ternary_nonzero)(const uint8_t *coded, size_t len);

    void (*planes_split)(float *values, float scale, uint32_t threshold, struct tern_planes planes);
    void (*planes_set)(struct tern_planes planes, float scale, float *values);
    void (*planes_add)(struct tern_planes planes, float scale, float *values);

    size_t (*run_encode)(uint8_t *bytes, size_t len);
    struct tern_run_facts (*run_facts)(const uint8_t *coded, size_t len);
    size_t (*run_expand)(const uint8_t *coded, size_t len, uint8_t block[TERN_TERNARY_BLOCK_ROOM],
                         size_t *expanded);

    // Bit i % 64 of above[i / 64] and equal[i / 64]: how the magnitude of value i compares with
    // `bits`. 64 * words values.
    void (*compare)(const float *values, size_t words, uint32_t bits, uint64_t *above,
                    uint64_t *equal);

    // Collects the magnitudes in the bracket, in order. Returns their number, or `room` when it may
    // be too many; *above: those above the bracket.
    size_t (*collect)(const float *values, size_t count, struct tern_bracket bracket, float *dst,
                      size_t room, size_t *above);

    // Of the values whose magnitude, as bits, is above `threshold`. count <= TERN_SUM_BLOCK.
    struct tern_sum (*sum_above)(const float *values, size_t count, uint32_t threshold,
                                 struct tern_units units);

    void (*finish)(void); // orders streamed stores before later ones; NULL: nothing to do
};

#define TERN_SUM_BLOCK ((size_t)1 << 15) // values whose sum fits 32 bits twice

// The fields that only this folder calls.
void tern_kernel_compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                         uint64_t *equal);
size_t tern_kernel_collect(const float *values, size_t count, struct tern_bracket bracket,
                           float *dst, size_t room, size_t *above);
struct tern_sum tern_kernel_sum_above(const float *values, size_t count, uint32_t threshold,
                                      struct tern_units units);

extern const struct tern_kernels tern_kernels_portable;
extern const struct tern_kernels tern_kernels_scalar;
#if TERN_KERNELS_X86
extern const struct tern_kernels tern_kernels_avx2;
extern const struct tern_kernels tern_kernels_avx512;
extern const struct tern_kernels tern_kernels_avx512_vbmi2; // with the byte compression of VBMI2
#endif
#if TERN_KERNELS_NEON
extern const struct tern_kernels tern_kernels_neon;
#endif

// Plain C, which sets with nothing faster take over.
uint32_t tern_portable_peak(const float *values, size_t count);
uint32_t tern_portable_peak_bytes(const uint8_t *src, size_t count);
void tern_portable_float32_put(const float *values, size_t count, uint8_t *dst);
void tern_portable_float32_get(const uint8_t *src, float *dst, size_t count);
void tern_portable_float32_add(const uint8_t *src, float weight, float *acc, size_t count);
void tern_portable_float16_put(float *values, size_t count, uint8_t *dst);
void tern_portable_float16_get(const uint8_t *src, float *dst, size_t count);
void tern_portable_float16_add(const uint8_t *src, float weight, float *acc, size_t count);
uint16_t tern_portable_float16_peak(const uint8_t *src, size_t count);
void tern_portable_ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                                uint8_t *packed);
void tern_portable_ternary_set(const uint8_t *packed, size_t len, float scale,
                               struct tern_ternary_target target);
void tern_portable_ternary_add(const uint8_t *packed, size_t len, float scale,
                               struct tern_ternary_target target);
size_t tern_portable_ternary_nonzero(const uint8_t *coded, size_t len);
void tern_portable_planes_split(float *values, float scale, uint32_t threshold,
                                struct tern_planes planes);
void tern_portable_planes_set(struct tern_planes planes, float scale, float *values);
void tern_portable_planes_add(struct tern_planes planes, float scale, float *values);
size_t tern_portable_run_encode(uint8_t *bytes, size_t len);
struct tern_run_facts tern_portable_run_facts(const uint8_t *coded, size_t len);
size_t tern_portable_run_expand(const uint8_t *coded, size_t len,
                                uint8_t block[TERN_TERNARY_BLOCK_ROOM], size_t *expanded);
void tern_portable_compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                           uint64_t *equal);
size_t tern_portable_collect(const float *values, size_t count, struct tern_bracket bracket,
                             float *dst, size_t room, size_t *above);
struct tern_sum tern_portable_sum_above(const float *values, size_t count, uint32_t threshold,
                                        struct tern_units units);

// For one value at a time (scalar.c); all else is as in plain C.
uint32_t tern_scalar_peak(const float *values, size_t count);
uint32_t tern_scalar_peak_bytes(const uint8_t *src, size_t count);
void tern_scalar_float32_add(const uint8_t *src, float weight, float *acc, size_t count);
void tern_scalar_ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                              uint8_t *packed);
void tern_scalar_ternary_set(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target);
void tern_scalar_ternary_add(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target);
void tern_scalar_planes_split(float *values, float scale, uint32_t threshold,
                              struct tern_planes planes);
struct tern_sum tern_scalar_sum_above(const float *values, size_t count, uint32_t threshold,
                                      struct tern_units units);

// --- What the sets share
// -------------------------------------------------------------------------------

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
