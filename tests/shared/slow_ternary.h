// 3LC by the book, one value at a time: what the kernels of libtern must equal. For tests.
#ifndef TERN_TEST_SLOW_TERNARY_H
#define TERN_TEST_SLOW_TERNARY_H

#include "codec/codec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Writes the payload of FORMAT.md sections 3.3 and 3.4 and leaves the residual in values, which are
// finite, as is their scale. Returns its length.
size_t slow_encode(float *values, size_t count, const struct tern_codec *codec, uint8_t *dst);

// Whether slow_decode() knows the mode.
bool slow_reads(uint8_t mode);

// Whether a payload of these modes is valid; if so fills values.
bool slow_decode(const uint8_t *src, size_t len, float *values, size_t count);

#endif
