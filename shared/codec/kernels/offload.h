// Codecs in hardware: what a board that has such blocks (docs/HARDWARE.md) does in place of the loops
// in C. Called by the codecs of shared/codec alone, on any thread. Where a build has no blocks, which
// is the rule, nothing of this is compiled.
//
// A board builds with -DTERN_OFFLOAD=1 (build.h) and defines the one table tern_offload. A member that
// is NULL, or says no, leaves the work to the loops; so blocks may be fewer than codecs, busy, or not
// worth it for a small segment. Either way the bytes are those of docs/FORMAT.md.
#ifndef TERN_OFFLOAD_H
#define TERN_OFFLOAD_H

#include "build.h"
#include "codec/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One segment to encode. All values are finite, at least one is not 0.
struct tern_offload_job {
    enum tern_mode_byte mode; // of the payload that is asked for
    const float *values;      // not changed
    size_t count;             // >= 1
    uint8_t *dst;             // room for the longest payload of the mode

    float scale;        // ternary modes: m > 0
    uint32_t threshold; // ternary modes: magnitudes above it, as bits, have q != 0; one at least
    uint32_t bound;     // TERN_MODE_INCEPTIONN_...: c
};

struct tern_offload {
    // Writes a whole payload, mode byte and all, and returns its length; TERN_MODE_ZERO alone if all
    // values decode to zero. 0: left to the loops; dst is then unspecified.
    size_t (*encode)(const struct tern_offload_job *job);

    // Decodes a body that was checked, what follows the mode byte, into dst[0..count), count >= 1.
    // false: left to the loops; dst is then unspecified.
    bool (*decode)(enum tern_mode_byte mode, const uint8_t *body, size_t len, float *dst,
                   size_t count);
};

#if TERN_OFFLOAD
extern const struct tern_offload tern_offload; // of the board

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
