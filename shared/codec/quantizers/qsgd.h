// What the two modes of QSGD have in common. Internal to shared/codec.
#ifndef TERN_QSGD_H
#define TERN_QSGD_H

#include "codec/modes.h"

extern const struct tern_mode tern_qsgd_dense_mode;
extern const struct tern_mode tern_qsgd_elias_mode;

#define TERN_QSGD_LEVELS_MOST 32767
#define TERN_QSGD_BUCKET_LEAST 32

// The head of a body, and what follows it.
struct tern_qsgd_layout {
    uint32_t levels;       // s
    size_t bucket;         // d, at most count
    size_t buckets;        // ceil(count / d)
    const uint8_t *scales; // float32 each
    const uint8_t *rest;
    size_t rest_len;
};

// Finds the parts of a body; false when it has none. Does not look at the scales.
bool tern_qsgd_layout(const uint8_t *body, size_t len, size_t count,
                      struct tern_qsgd_layout *layout);

// The scale of a bucket.
float tern_qsgd_scale(const struct tern_qsgd_layout *layout, size_t bucket);

// TERN_ERR_NON_FINITE when a scale is not finite or has a sign bit.
TERN_MUST_USE enum tern_result tern_qsgd_check_scales(const struct tern_qsgd_layout *layout);

// The two ways to write levels. values: whole numbers with signs, of which at least one is not 0.
// Both return the end of what they wrote, and may touch the bytes of their bound, a multiple of
// count and a little.
uint8_t *tern_qsgd_dense_put(const float *values, size_t count, uint32_t levels, uint8_t *dst);
size_t tern_qsgd_dense_bound(size_t count, uint32_t levels);
uint8_t *tern_qsgd_elias_put(const float *values, size_t count, uint8_t *dst);
size_t tern_qsgd_elias_bound(size_t count, uint32_t levels);

#endif
