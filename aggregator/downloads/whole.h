// Snapshots in float32: the weights themselves, as many bytes as the model has. They are written piece by
// piece from where the weights are, so that they take no memory of their own. catchup.c calls it when a
// client needs one. Pure; the caller owns all memory; reentrant.
#ifndef TERN_DOWNLOADS_WHOLE_H
#define TERN_DOWNLOADS_WHOLE_H

#include "merge/delta.h"
#include "result.h"
#include "tensor/model.h"

// Where the bytes of a download go, in their order.
struct tern_download_sink {
    void *ctx;
    TERN_MUST_USE enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
};

// Bytes of such a snapshot, at most.
size_t tern_whole_bound(const struct tern_model *model);

// The snapshot of a replica with this id. made is set on success.
// TERN_ERR_NON_FINITE  a weight is not finite: nothing was handed on; the sink's errors
TERN_MUST_USE enum tern_result
tern_whole_snapshot(const struct tern_model *model, const float *weights,
                    const uint8_t id[TERN_SHA256_SIZE], uint32_t version,
                    const struct tern_download_sink *sink, struct tern_download_made *made);

// A snapshot that opens a replica of its own, whose weights are these: made->replica is SHA-256("tern
// replica snapshot" || model hash || version as 4 bytes little-endian || SHA-256 of the container). Errors
// as above.
TERN_MUST_USE enum tern_result tern_whole_opening(const struct tern_model *model,
                                                  const float *weights, uint32_t version,
                                                  const struct tern_download_sink *sink,
                                                  struct tern_download_made *made);

#endif
