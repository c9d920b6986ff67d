// A container that is not in memory as a whole: the functions of container.h over bytes that are
// looked at piece by piece, where they lie. Payloads that hold a value after the other (float32,
// float16, bfloat16), as those of snapshots do, are taken in pieces of TERN_CONTAINER_PIECE values;
// others as a whole. Pure but for the source; the caller owns all memory.
#ifndef TERN_CONTAINER_SOURCE_H
#define TERN_CONTAINER_SOURCE_H

#include "codec/container.h"

#define TERN_CONTAINER_PIECE 262144u

struct tern_container_source {
    void *ctx;
    size_t len; // of the container

    // Points *data at `len` of its bytes from `offset` on, until the next call. Its errors are those
    // of the functions below, too.
    TERN_MUST_USE enum tern_result (*view)(void *ctx, size_t offset, size_t len,
                                           const uint8_t **data);
};

// Checks a whole untrusted container. *peak: the largest magnitude that it decodes to. Errors of
// tern_container_inspect().
TERN_MUST_USE enum tern_result
tern_container_source_check(const struct tern_model *model,
                            const struct tern_container_source *source, float *peak);

// acc[i] += decoded[i], of a container that was checked. An error, as when it is not the one that
// was checked any more, leaves acc unspecified.
TERN_MUST_USE enum tern_result tern_container_source_add(const struct tern_model *model,
                                                         const struct tern_container_source *source,
                                                         float *acc);

// dst[i] = decoded[i]; likewise.
TERN_MUST_USE enum tern_result
tern_container_source_decode(const struct tern_model *model,
                             const struct tern_container_source *source, float *dst);

#endif
