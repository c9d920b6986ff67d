// Inner loops of the codecs that spend 16, 8 and 1 bits on each value: bfloat16, int8 and onebit.
// As those of kernels.h: no branch that depends on a value, and every version gives the same bits.
// Pure; reentrant.
#ifndef TERN_NARROW_H
#define TERN_NARROW_H

#include <stddef.h>
#include <stdint.h>

// --- bfloat16: the high half of a float32

// Rounds to the nearest, ties to even, and leaves what was lost in values. No value rounds to
// infinity.
void tern_kernel_bfloat16_put(float *values, size_t count, uint8_t *dst);
void tern_kernel_bfloat16_get(const uint8_t *src, float *dst, size_t count);
void tern_kernel_bfloat16_add(const uint8_t *src, float weight, float *acc, size_t count);

// The largest bfloat16 without its sign.
uint16_t tern_kernel_bfloat16_peak(const uint8_t *src, size_t count);

// --- int8: q * scale

// q = value / scale, rounded to the nearest, ties to even, and at most 127 either way. Leaves
// value - q * scale in values. scale > 0; no quotient is 2^22 or more.
void tern_kernel_int8_put(float *values, size_t count, float scale, uint8_t *dst);
void tern_kernel_int8_get(const uint8_t *src, float scale, float *dst, size_t count);
void tern_kernel_int8_add(const uint8_t *src, float scale, float weight, float *acc, size_t count);

// The lowest q.
int tern_kernel_int8_lowest(const uint8_t *src, size_t count);

// --- onebit: a where the bit is 0, -b where it is 1; bit i % 8 of byte i / 8

struct tern_two_means {
    float positive; // a
    float negative; // b, a magnitude
};

// The means of the two sides, summed as docs/FORMAT.md says. A side without values has 0.
struct tern_two_means tern_kernel_onebit_means(const float *values, size_t count);

// The bit is value < 0. Leaves value - decoded in values.
void tern_kernel_onebit_put(float *values, size_t count, struct tern_two_means means, uint8_t *dst);
void tern_kernel_onebit_get(const uint8_t *src, struct tern_two_means means, float *dst,
                            size_t count);
void tern_kernel_onebit_add(const uint8_t *src, struct tern_two_means means, float weight,
                            float *acc, size_t count);

#endif
