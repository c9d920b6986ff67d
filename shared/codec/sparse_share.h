// Lets the clients of a scalecom round send values without their indices (docs/FORMAT.md, "sparse-indices, sparse-shared";
// ScaleCom, section 3): the aggregator extracts the indices from the leader's container, each client strips its container of
// them, and the aggregator joins both again. Pure; the caller owns all memory; reentrant.
//
// All functions accept untrusted containers. `dst` has dst_size bytes; *written is set on success only.
// TERN_ERR_CORRUPT   lengths do not fit, or bytes are left over
// TERN_ERR_NO_SPACE  dst is too small
#ifndef TERN_SPARSE_SHARE_H
#define TERN_SPARSE_SHARE_H

#include "codec/codec.h"
#include "tensor/model.h"

// Extracts the indices from the leader's container; tern_container_bound_any() bytes suffice.
// TERN_ERR_UNKNOWN   a payload is neither sparse nor zero
// TERN_ERR_ARGUMENT  a payload lists more values than the codec sends
// and the errors of tern_container_inspect()
TERN_MUST_USE enum tern_result tern_sparse_indices(const struct tern_model *model,
                                                   const struct tern_codec *codec,
                                                   const uint8_t *src, size_t len, uint8_t *dst,
                                                   size_t dst_size, size_t *written);

// Strips a container of its indices. dst may be src; src's size suffices. Errors of tern_container_inspect().
TERN_MUST_USE enum tern_result tern_sparse_strip(const struct tern_model *model, const uint8_t *src,
                                                 size_t len, uint8_t *dst, size_t dst_size,
                                                 size_t *written);

// Returns the size limit of a stripped container of `len` bytes after it is joined with its indices.
size_t tern_sparse_join_bound(const struct tern_model *model, size_t indices_len, size_t len);

// Joins a stripped container with its indices. Copies payloads that were not stripped, without checking them.
// TERN_ERR_CORRUPT  also: the numbers of values and indices of a payload differ
TERN_MUST_USE enum tern_result tern_sparse_join(const struct tern_model *model,
                                                const uint8_t *indices, size_t indices_len,
                                                const uint8_t *src, size_t len, uint8_t *dst,
                                                size_t dst_size, size_t *written);

#endif
