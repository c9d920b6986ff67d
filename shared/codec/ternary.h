// Ternary payloads: a scale, then five digits a byte, planar. Internal to shared/codec.
#ifndef TERN_TERNARY_H
#define TERN_TERNARY_H

#include "codec/kernels/kernels.h"

#define TERN_TERNARY_SCALE_BYTES 4 // float32, little-endian, before the digits

// Bytes of the digits of `count` values, and the distance between the values of one byte.
static inline size_t tern_ternary_stride(size_t count)
{
    return count / TERN_TERNARY_PARTS + (count % TERN_TERNARY_PARTS != 0);
}

#endif
