// Makes snapshots in float32: all weights, uncompressed. It streams them from the weights' own memory. Called by catchup.c
// when a client needs one. Pure; the caller owns all memory; reentrant.
#ifndef TERN_DOWNLOADS_WHOLE_H
#define TERN_DOWNLOADS_WHOLE_H

#include "merge/delta.h"
#include "result.h"
#include "tensor/model.h"

// Receives the bytes of a download, in order.
struct tern_download_sink {
    void *ctx;
    TERN_MUST_USE enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
};

// Returns the bytes of a snapshot of these weights, without making it. Reads few weights of segments that are not zero.
size_t tern_whole_size(const struct tern_model *model, const float *weights, uint32_t version);

// Writes the snapshot of the replica with this id. made is set on success.
// TERN_ERR_NON_FINITE  a weight is not finite; nothing was written
// Also returns the sink's errors.
TERN_MUST_USE enum tern_result
tern_whole_snapshot(const struct tern_model *model, const float *weights,
                    const uint8_t id[TERN_SHA256_SIZE], uint32_t version,
                    const struct tern_download_sink *sink, struct tern_download_made *made);

// Writes a snapshot that creates a new replica with these weights. made->replica is SHA-256("tern replica snapshot" || model
// hash || version as 4 bytes little-endian || SHA-256 of the container). Errors as above.
TERN_MUST_USE enum tern_result tern_whole_opening(const struct tern_model *model,
                                                  const float *weights, uint32_t version,
                                                  const struct tern_download_sink *sink,
                                                  struct tern_download_made *made);

#endif
