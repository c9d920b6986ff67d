// A container holds the payloads of all segments of a model, in layout order, each behind its
// length (varint). It is the body of an update and of a download. Whatever the codec, segments that
// are dense or skipped (tensor/model.h) are encoded as float32, which leaves +0 to feed back; who
// encodes a change sets it to zero where it is skipped (tern_model_freeze()). Pure; the caller owns
// all memory.
#ifndef TERN_CONTAINER_H
#define TERN_CONTAINER_H

#include "codec/codec.h"
#include "codec/signs.h"
#include "tensor/model.h"

#ifdef __cplusplus
extern "C" {
#endif

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

// Takes a container that is not to be in memory as a whole, piece by piece: payloads that hold a value
// after the other (float32, float16, bfloat16) in pieces of so many values as container_source.h
// takes them, others as a whole.
struct tern_container_sink {
    void *ctx;
    uint8_t *piece;    // where a piece is encoded
    size_t piece_size; // tern_container_piece_bound() at least
    TERN_MUST_USE enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
};

// The most bytes that a piece of a container of `model` takes under `codec`.
size_t tern_container_piece_bound(const struct tern_codec *codec, const struct tern_model *model);

// As tern_container_encode(). Errors of take(), too, after which values are of no use.
TERN_MUST_USE enum tern_result tern_container_encode_into(const struct tern_codec *codec,
                                                          const struct tern_encode_context *context,
                                                          const struct tern_model *model,
                                                          float *values,
                                                          const struct tern_container_sink *sink,
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

// Who wants the values of a container one after the other, without memory for all of them.
struct tern_container_visitor {
    void *ctx;
    // Whether the payload of a segment is to be read at all. NULL: all are.
    bool (*wants)(void *ctx, uint32_t segment);
    // Values of a ternary segment that are not zero: indices are within the segment. Of coders that find values by
    // their gaps, and of planar ones where few values are not zero.
    void (*signs)(void *ctx, uint32_t segment, float scale, const struct tern_indices *indices);
    // Values of a segment from `first` on, within it; zeros among them may be left out. NULL: those
    // that signs() is not given are only checked.
    TERN_MUST_USE enum tern_result (*values)(void *ctx, uint32_t segment, uint32_t first,
                                             const float *values, uint32_t count);
    // Room for so many values, where values() is and a segment is decoded whole. NULL: there is none.
    float *(*scratch)(void *ctx, uint32_t count);
};

// Visits the values of an untrusted container, each payload read once: some may have been handed
// over before an error is found. info: what tern_container_inspect() tells of all segments that are
// wanted, or NULL.
// TERN_ERR_NO_MEMORY  no scratch; errors of tern_container_inspect() and of values()
TERN_MUST_USE enum tern_result tern_container_each(const struct tern_model *model,
                                                   const uint8_t *src, size_t src_len,
                                                   const struct tern_container_visitor *visitor,
                                                   struct tern_codec_info *info);

// acc[i] += decoded[i] in the segments that error feedback covers. The container is checked whole
// first: on error acc is unchanged.
TERN_MUST_USE enum tern_result tern_container_give_back(const struct tern_model *model,
                                                        const uint8_t *src, size_t src_len,
                                                        float *acc);

// dst[i] = decoded[i]. The container is checked whole first: on error dst is unchanged.
TERN_MUST_USE enum tern_result tern_container_decode(const struct tern_model *model,
                                                     const uint8_t *src, size_t src_len,
                                                     float *dst);

#ifdef __cplusplus
}
#endif

#endif
