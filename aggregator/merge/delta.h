// Makes the blobs that clients download: the delta of a version, encoded once and shared by every client on the previous
// replica, and compressed snapshots (downloads/whole.h makes the others). Called by the commit of a round, by the service
// when a client needs a snapshot, and by the replay. Pure; the caller owns all memory; reentrant.
#ifndef TERN_DOWNLOADS_DELTA_H
#define TERN_DOWNLOADS_DELTA_H

#include "codec/codec.h"
#include "codec/container.h"
#include "result.h"
#include "tensor/model.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_download_made {
    size_t len;     // bytes of the blob
    size_t payload; // bytes of its container
    struct tern_codec codec;
    uint8_t sha256[TERN_SHA256_SIZE];
    uint8_t replica[TERN_SHA256_SIZE]; // id of the replica that the download makes
};

// The stored facts of a download, without its bytes.
struct tern_download_facts {
    uint32_t size;    // bytes of the blob
    uint32_t payload; // bytes of its container
    bool shared;      // many clients can use the download; false: it was made for one client
};

// Working memory: scratch holds model->count floats, blob at least tern_download_blob_bound() bytes.
struct tern_download_buffers {
    float *scratch;
    uint8_t *blob; // result
    size_t blob_size;
};

// Returns the Euclidean norm of a - b, or of a where b is NULL.
double tern_distance(const float *a, const float *b, uint32_t count);
// Sets difference[0..count) to a - b, and returns the Euclidean norm of its first `measured` values.
double tern_difference(const float *a, const float *b, float *difference, uint32_t count,
                       uint32_t measured);

size_t tern_download_blob_bound(const struct tern_codec *codec, const struct tern_model *model);

// Encodes global - replica, and adds the decoded delta to replica by the same additions as a client. The difference
// contains what compression left out of earlier downloads, so that the replica needs no error buffer.
// context: for the encoder: round = the version that the delta makes, client = 0. from: id of the replica before the delta.
// TERN_ERR_NON_FINITE  the difference overflows; TERN_ERR_NO_SPACE  a buffer is below its bound.
// On error replica is unchanged.
TERN_MUST_USE enum tern_result
tern_download_delta(const struct tern_model *model, const struct tern_codec *codec,
                    const struct tern_encode_context *context, const float *global, float *replica,
                    const uint8_t from[TERN_SHA256_SIZE],
                    const struct tern_download_buffers *buffers, struct tern_download_made *made);

// Like tern_download_delta(), for a difference global - replica that buffers->scratch has already.
TERN_MUST_USE enum tern_result tern_download_difference(
    const struct tern_model *model, const struct tern_codec *codec,
    const struct tern_encode_context *context, float *replica, const uint8_t from[TERN_SHA256_SIZE],
    const struct tern_download_buffers *buffers, struct tern_download_made *made);

// Encodes the global model as a snapshot, from which a new replica begins, and writes the decoded values to replica.
// The id is SHA-256("tern replica snapshot" || model hash || version as 4 bytes little-endian || SHA-256 of the container).
// Errors and buffers: as for tern_download_delta().
TERN_MUST_USE enum tern_result tern_download_opening(const struct tern_model *model,
                                                     const struct tern_codec *codec,
                                                     const struct tern_encode_context *context,
                                                     const float *global, float *replica,
                                                     const struct tern_download_buffers *buffers,
                                                     struct tern_download_made *made);

// Makes the indices of a leader's container, for the other clients of a scalecom round. version: the base version of the
// round. Does not set made->replica. Errors of tern_sparse_indices()
TERN_MUST_USE enum tern_result
tern_download_indices(const struct tern_model *model, const struct tern_codec *codec,
                      const uint8_t *container, size_t len, uint32_t version,
                      const struct tern_download_buffers *buffers, struct tern_download_made *made);

#endif
