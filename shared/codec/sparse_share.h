// How the clients of a round of scalecom send values without their indices (docs/FORMAT.md,
// "sparse-indices, sparse-shared"): the aggregator makes the indices out of the leader's
// container, a client strips its own of them, and the aggregator joins the two again. Pure; the
// caller owns all memory; reentrant. ScaleCom, section 3.
//
// All take untrusted containers. `dst` has dst_size bytes, and *written is set on success only.
// TERN_ERR_CORRUPT   lengths do not fit, or bytes are left over
// TERN_ERR_NO_SPACE  dst is too small
#ifndef TERN_SPARSE_SHARE_H
#define TERN_SPARSE_SHARE_H

#include "codec/codec.h"
#include "tensor/model.h"

// The indices that a leader's container lists; tern_container_bound_any() bytes are enough for them.
// TERN_ERR_UNKNOWN   a payload lists none: it is neither sparse nor zero
// TERN_ERR_ARGUMENT  a payload lists more values than the codec sends
// and the errors of tern_container_inspect()
TERN_MUST_USE enum tern_result tern_sparse_indices(const struct tern_model *model,
                                                   const struct tern_codec *codec,
                                                   const uint8_t *src, size_t len, uint8_t *dst,
                                                   size_t dst_size, size_t *written);

// A container without the indices of its values. dst may be src, and needs no more bytes than it.
// Errors of tern_container_inspect().
TERN_MUST_USE enum tern_result tern_sparse_strip(const struct tern_model *model, const uint8_t *src,
                                                 size_t len, uint8_t *dst, size_t dst_size,
                                                 size_t *written);

// The most bytes of a stripped container of `len` bytes that was joined with its indices.
size_t tern_sparse_join_bound(const struct tern_model *model, size_t indices_len, size_t len);

// Puts the indices back. Payloads that were not stripped stay as they are, unchecked.
// TERN_ERR_CORRUPT  also: a stripped payload has not as many values as its segment has indices
TERN_MUST_USE enum tern_result tern_sparse_join(const struct tern_model *model,
                                                const uint8_t *indices, size_t indices_len,
                                                const uint8_t *src, size_t len, uint8_t *dst,
                                                size_t dst_size, size_t *written);

#endif
