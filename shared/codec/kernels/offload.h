// The interface to codecs in hardware (docs/HARDWARE.md). A board with such blocks builds with -DTERN_OFFLOAD=1 (build.h) and
// defines the table tern_offload; the codecs of shared/codec call it on any thread. If a member is NULL, or declines a segment
// because the block is busy or the segment small, the loops in C do the work. The bytes are the same.
#ifndef TERN_OFFLOAD_H
#define TERN_OFFLOAD_H

#include "build.h"
#include "codec/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One segment to encode. All values are finite, at least one is not 0.
struct tern_offload_job {
    enum tern_mode_byte mode; // of the wanted payload
    const float *values;      // read only
    size_t count;             // >= 1
    uint8_t *dst;             // as large as the longest payload of the mode

    float scale; // ternary modes: m > 0
    // ternary modes: magnitudes whose bits are above it have q != 0; at least one is
    uint32_t threshold;
    uint32_t bound; // TERN_MODE_INCEPTIONN_...: the exponent c of the error bound 2^-c
};

struct tern_offload {
    // Writes a payload with its mode byte and returns its length; only the byte TERN_MODE_ZERO if all values decode to 0.
    // Returns 0 to decline; dst is then unspecified.
    size_t (*encode)(const struct tern_offload_job *job);

    // Decodes a checked body (the payload without its mode byte) into dst[0..count), count >= 1. Returns false to decline; dst
    // is then unspecified.
    bool (*decode)(enum tern_mode_byte mode, const uint8_t *body, size_t len, float *dst,
                   size_t count);
};

#if TERN_OFFLOAD
extern const struct tern_offload tern_offload; // defined by the board

static inline size_t tern_offload_encode(const struct tern_offload_job *job)
{
    return tern_offload.encode != NULL ? tern_offload.encode(job) : 0;
}

static inline bool tern_offload_decode(enum tern_mode_byte mode, const uint8_t *body, size_t len,
                                       float *dst, size_t count)
{
    return tern_offload.decode != NULL && count > 0 &&
           tern_offload.decode(mode, body, len, dst, count);
}
#else
static inline size_t tern_offload_encode(const struct tern_offload_job *job)
{
    (void)job;
    return 0;
}

static inline bool tern_offload_decode(enum tern_mode_byte mode, const uint8_t *body, size_t len,
                                       float *dst, size_t count)
{
    (void)mode;
    (void)body;
    (void)len;
    (void)dst;
    (void)count;
    return false;
}
#endif

#endif
