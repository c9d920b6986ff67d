// A container holds the payloads of all segments of a model, in layout order, each behind its
// length (varint). It is the body of an update and of a download. Whatever the codec, segments that
// are dense or skipped (tensor/model.h) are encoded as float32, which leaves +0 to feed back; who
// encodes a change sets it to zero where it is skipped (tern_model_freeze()). Pure; the caller owns
// all memory.
#ifndef TERN_CONTAINER_H
#define TERN_CONTAINER_H

#include "codec/codec.h"
#include "tensor/model.h"

// The most bytes of a container of `model` under `codec`.
size_t tern_container_bound(const struct tern_codec *codec, const struct tern_model *model);

// The most bytes of a container of `model` under any codec.
size_t tern_container_bound_any(const struct tern_model *model);

// Encodes all segments of values[0..model->count), in place as tern_codec_encode(): on success
// values hold the new error buffer. All segments are checked before any is changed, so on error
// values are unchanged. context: of the whole model (velocity: model->count values); NULL is all
// zero. Errors of tern_codec_encode().
TERN_MUST_USE enum tern_result tern_container_encode(const struct tern_codec *codec,
                                                     const struct tern_encode_context *context,
                                                     const struct tern_model *model, float *values,
                                                     uint8_t *dst, size_t dst_size,
                                                     size_t *written);

// Checks a whole untrusted container and adds up what it says: nonzero, runs, sum_square, maximum
// over all segments (id, mode and scale are those of the largest coded segment), and
// skipped_nonzero, which no update may have.
// Errors of tern_codec_decode(), and TERN_ERR_CORRUPT when lengths do not fit or bytes are left
// over.
TERN_MUST_USE enum tern_result tern_container_inspect(const struct tern_model *model,
                                                      const uint8_t *src, size_t src_len,
                                                      struct tern_codec_info *info);

// acc[i] += weight * decoded[i]. The container is checked whole first: on error acc is unchanged.
TERN_MUST_USE enum tern_result tern_container_accumulate(const struct tern_model *model,
                                                         const uint8_t *src, size_t src_len,
                                                         float weight, float *acc);

// As above, but each payload is read once: on error acc is unspecified. For who gives acc up then.
TERN_MUST_USE enum tern_result tern_container_add(const struct tern_model *model,
                                                  const uint8_t *src, size_t src_len, float weight,
                                                  float *acc);

// acc[i] += weight * decoded[i] in the segments that are dense; likewise, and the payloads of others
// are passed over unread.
TERN_MUST_USE enum tern_result tern_container_add_dense(const struct tern_model *model,
                                                        const uint8_t *src, size_t src_len,
                                                        float weight, float *acc);

// acc[i] += decoded[i] in the segments that error feedback covers. The container is checked whole
// first: on error acc is unchanged.
TERN_MUST_USE enum tern_result tern_container_give_back(const struct tern_model *model,
                                                        const uint8_t *src, size_t src_len,
                                                        float *acc);

// dst[i] = decoded[i]. The container is checked whole first: on error dst is unchanged.
TERN_MUST_USE enum tern_result tern_container_decode(const struct tern_model *model,
                                                     const uint8_t *src, size_t src_len,
                                                     float *dst);

#endif
