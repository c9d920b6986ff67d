// Makes the blobs that clients download: the delta of a version, encoded once and shared by every
// client on the replica before it, and snapshots of fewer bytes than weights have (whole.h has the others).
// Who calls: the round's commit, the service when a client needs a snapshot, and the replay. Pure; the
// caller owns all memory; reentrant.
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
    uint8_t replica[TERN_SHA256_SIZE]; // that a client holds after it
};

// Of one that is there, beside its bytes.
struct tern_download_facts {
    uint32_t size;    // bytes of the blob
    uint32_t payload; // bytes of its container
    bool shared;      // many clients are given it; else it was made for one
};

// Working memory: scratch holds model->count floats, blob what the bound below asks for.
struct tern_download_buffers {
    float *scratch;
    uint8_t *blob; // result
    size_t blob_size;
};

size_t tern_download_blob_bound(const struct tern_codec *codec, const struct tern_model *model);

// Encodes global - replica (what compression left out of earlier downloads is part of it: the
// replica's error buffer is that difference) and moves replica by what the delta decodes to, with
// the very additions that a client does.
// context: of the encoder; its round is the version after the delta, its client 0. from: id of the
// replica before.
// TERN_ERR_NON_FINITE  the difference overflows; TERN_ERR_NO_SPACE  a buffer is below its bound.
// On error replica is unchanged.
TERN_MUST_USE enum tern_result
tern_download_delta(const struct tern_model *model, const struct tern_codec *codec,
                    const struct tern_encode_context *context, const float *global, float *replica,
                    const uint8_t from[TERN_SHA256_SIZE],
                    const struct tern_download_buffers *buffers, struct tern_download_made *made);

// A snapshot that opens a replica of its own: encodes the global model itself, and replica becomes
// what that decodes to. Its id is SHA-256("tern replica snapshot" || model hash || version as 4
// bytes little-endian || SHA-256 of the container). Errors and buffers as above.
TERN_MUST_USE enum tern_result tern_download_opening(const struct tern_model *model,
                                                     const struct tern_codec *codec,
                                                     const struct tern_encode_context *context,
                                                     const float *global, float *replica,
                                                     const struct tern_download_buffers *buffers,
                                                     struct tern_download_made *made);

// The indices of a leader's container, for the other clients of a round of scalecom. version: that
// the round trains from. made->replica is not set. Errors of tern_sparse_indices()
TERN_MUST_USE enum tern_result
tern_download_indices(const struct tern_model *model, const struct tern_codec *codec,
                      const uint8_t *container, size_t len, uint32_t version,
                      const struct tern_download_buffers *buffers, struct tern_download_made *made);

#endif
