// Kernels for NEON on AArch64. The compiler vectorises the other kernels well from plain C.
#include "codec/kernels/paths.h"

#if TERN_KERNELS_NEON
#include <arm_neon.h>
#include <string.h>

#define TERN_INLINE static inline __attribute__((always_inline))

enum { FLOATS = 4, BYTES = 16 };

#define TERN_KERNEL static
#define NAME(name) name
#include "codec/kernels/dense_loops.h"

// --- Packing

// The threshold and the scale, both with both signs.
struct split {
    float32x4_t above, below, plus, minus;
};

TERN_INLINE struct split split_of(float scale, uint32_t threshold)
{
    float bound = tern_bits_float(threshold);
    return (struct split){
        .above = vdupq_n_f32(bound),
        .below = vdupq_n_f32(-bound),
        .plus = vdupq_n_f32(scale),
        .minus = vdupq_n_f32(-scale),
    };
}

TERN_INLINE float32x4_t where(uint32x4_t mask, float32x4_t value)
{
    return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(value)));
}

// Quantizes 4 values and returns q. Subtracts +0 where q is 0, because adding +0 would turn -0 into +0.
TERN_INLINE int32x4_t split_vector(float *at, const struct split *by)
{
    float32x4_t values = vld1q_f32(at);
    uint32x4_t above = vcgtq_f32(values, by->above);
    uint32x4_t below = vcltq_f32(values, by->below);
    values = vsubq_f32(values, where(above, by->plus));
    vst1q_f32(at, vsubq_f32(values, where(below, by->minus)));
    return vreinterpretq_s32_u32(vsubq_u32(below, above));
}

// Quantizes 16 values to 16 bytes of q.
TERN_INLINE int8x16_t split_values(float *at, const struct split *by)
{
    int16x4_t q[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        q[i] = vmovn_s32(split_vector(at + i * FLOATS, by));
    }
    return vcombine_s8(vmovn_s16(vcombine_s16(q[0], q[1])), vmovn_s16(vcombine_s16(q[2], q[3])));
}

// Packs 16 bytes, by Horner's rule over the five parts.
TERN_INLINE void pack_bytes(float *at, size_t stride, const struct split *by, uint8_t *packed)
{
    uint8x16_t bytes = vdupq_n_u8(0);
#pragma GCC unroll 5
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        uint8x16_t q = vreinterpretq_u8_s8(split_values(at + part * stride, by));
        bytes = vmlaq_u8(vaddq_u8(q, vdupq_n_u8(1)), bytes, vdupq_n_u8(3));
    }
    vst1q_u8(packed, bytes);
}

TERN_INLINE size_t pack_columns(float *at, size_t count, size_t stride, const struct split *by,
                                uint8_t *packed)
{
    size_t i = 0;
    for (; count - i >= BYTES; i += BYTES) {
        pack_bytes(at + i, stride, by, packed + i);
    }
    return i;
}

// --- Unpacking

TERN_INLINE uint8x16_t load_bytes(const uint8_t *bytes)
{
    return vld1q_u8(bytes);
}

TERN_INLINE uint8x16_t load_some_bytes(const uint8_t *bytes, size_t len)
{
    uint8_t some[BYTES] = {0};
    memcpy(some, bytes, len);
    return load_bytes(some);
}

// floor((13 v + 242) / 243); see fraction_of() in ternary.c.
TERN_INLINE uint8x8_t carry_of(uint8x8_t bytes)
{
    uint16x8_t dividend = vmlal_u8(vdupq_n_u16(TERN_TERNARY_LIMIT - 1), bytes, vdup_n_u8(13));
    // The instruction doubles the product and takes its upper half: a multiplication by 270 / 65536.
    int16x8_t quotient = vqdmulhq_n_s16(vreinterpretq_s16_u16(dividend), 135);
    return vmovn_u16(vreinterpretq_u16_s16(quotient));
}

TERN_INLINE uint8x16_t fractions_of(uint8x16_t bytes)
{
    uint8x16_t carry = vcombine_u8(carry_of(vget_low_u8(bytes)), carry_of(vget_high_u8(bytes)));
    return vaddq_u8(bytes, carry);
}

// Stores digits as q, -1 to 1.
TERN_INLINE void store_digits(uint8x16_t bytes, uint8_t *at)
{
    uint8x16_t fractions = fractions_of(bytes);
#pragma GCC unroll 5
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        // A true comparison gives -1.
        uint8x16_t minus_digit =
            vaddq_u8(vcgtq_u8(fractions, vdupq_n_u8(85)), vcgtq_u8(fractions, vdupq_n_u8(170)));
        vst1q_u8(at + part * TERN_TERNARY_BLOCK_ROOM, vsubq_u8(vdupq_n_u8(UINT8_MAX), minus_digit));
        fractions = vmulq_u8(fractions, vdupq_n_u8(3));
    }
}

// Widens 8 bytes of q to two vectors.
TERN_INLINE int32x4x2_t widen(const int8_t *q)
{
    int16x8_t wide = vmovl_s8(vld1_s8(q));
    return (int32x4x2_t){{vmovl_s16(vget_low_s16(wide)), vmovl_s16(vget_high_s16(wide))}};
}

static void set_part(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream)
{
    (void)stream;
    const int8_t *q = (const int8_t *)digits;
    size_t i = 0;
    for (; len - i >= 2 * FLOATS; i += 2 * FLOATS) {
        int32x4x2_t wide = widen(q + i);
        vst1q_f32(at + i, vmulq_n_f32(vcvtq_f32_s32(wide.val[0]), scale));
        vst1q_f32(at + i + FLOATS, vmulq_n_f32(vcvtq_f32_s32(wide.val[1]), scale));
    }
    for (; i < len; i++) {
        at[i] = scale * (float)q[i];
    }
}

// Returns scale * q, or -0 where q is 0, because adding +0 would turn -0 into +0.
TERN_INLINE float32x4_t product_to_add(int32x4_t q, uint32x4_t scale_bits)
{
    uint32x4_t magnitude = vandq_u32(vtstq_s32(q, q), scale_bits);
    uint32x4_t flip = vandq_u32(vcleq_s32(q, vdupq_n_s32(0)), vdupq_n_u32(TERN_SIGN_BIT));
    return vreinterpretq_f32_u32(veorq_u32(magnitude, flip));
}

static void add_part(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream)
{
    (void)stream;
    const int8_t *q = (const int8_t *)digits;
    const uint32x4_t scale_bits = vdupq_n_u32(tern_float_bits(scale));
    size_t i = 0;
    for (; len - i >= 2 * FLOATS; i += 2 * FLOATS) {
        int32x4x2_t wide = widen(q + i);
        float *second = at + i + FLOATS;
        vst1q_f32(at + i, vaddq_f32(vld1q_f32(at + i), product_to_add(wide.val[0], scale_bits)));
        vst1q_f32(second, vaddq_f32(vld1q_f32(second), product_to_add(wide.val[1], scale_bits)));
    }
    for (; i < len; i++) {
        at[i] = q[i] == 0 ? at[i] : at[i] + scale * (float)q[i];
    }
}

// --- Bit planes

// Returns bit i for byte i of 64 bytes, each 0 or 0xff.
TERN_INLINE uint64_t mask_of(const uint8x16_t bytes[4])
{
    const uint8_t places[BYTES] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t place = vld1q_u8(places);
    uint8x16_t low = vpaddq_u8(vandq_u8(bytes[0], place), vandq_u8(bytes[1], place));
    uint8x16_t high = vpaddq_u8(vandq_u8(bytes[2], place), vandq_u8(bytes[3], place));
    uint8x16_t all = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

TERN_INLINE void split_word(float *at, const struct split *by, uint64_t *nonzero,
                            uint64_t *negative)
{
    uint8x16_t is_nonzero[4];
    uint8x16_t is_negative[4];
    for (size_t i = 0; i < 4; i++) {
        int8x16_t q = split_values(at + i * BYTES, by);
        is_nonzero[i] = vtstq_s8(q, q);
        is_negative[i] = vcltzq_s8(q);
    }
    *nonzero = mask_of(is_nonzero);
    *negative = mask_of(is_negative);
}

#include "codec/kernels/ternary_loops.h"

// --- Zero runs

TERN_INLINE uint64_t zeros_of(const uint8_t *bytes)
{
    uint8x16_t zero[4];
    for (size_t i = 0; i < 4; i++) {
        zero[i] = vceqq_u8(vld1q_u8(bytes + i * BYTES), vdupq_n_u8(TERN_TERNARY_ZERO));
    }
    return mask_of(zero);
}

#include "codec/kernels/zero_run_loops.h"

const struct tern_kernels tern_kernels_neon = {
    .name = "neon",
    TERN_DENSE_FIELDS,
    TERN_TERNARY_FIELDS,
    .planes_set = tern_portable_planes_set,
    .planes_add = tern_portable_planes_add,
    .run_encode = run_encode,
    .run_facts = tern_portable_run_facts,
    .compare = tern_portable_compare,
    .collect = tern_portable_collect,
};

#else
typedef int tern_neon_is_empty; // ISO C forbids an empty file
#endif
