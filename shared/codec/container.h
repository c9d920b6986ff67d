// A container has one payload for each segment of a model, in layout order, each after its length (varint). It is the body of
// an update and of a download. Dense and skipped segments (tensor/model.h) are always encoded as float32, without residual
// error; callers set changes of skipped segments to 0 first (tern_model_freeze()). Pure; the caller owns all memory.
#ifndef TERN_CONTAINER_H
#define TERN_CONTAINER_H

#include "codec/codec.h"
#include "tensor/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the size limit of a container, in bytes.
size_t tern_container_bound(const struct tern_codec *codec, const struct tern_model *model);

// Returns the size limit of a container under any codec, in bytes.
size_t tern_container_bound_any(const struct tern_model *model);

// Encodes values[0..model->count). On success the values hold the residual error, as after tern_codec_encode(). On error they
// are unchanged: all segments are checked before any is encoded. context: for the whole model (velocity: model->count
// values); NULL is all zero. Errors of tern_codec_encode().
TERN_MUST_USE enum tern_result tern_container_encode(const struct tern_codec *codec,
                                                     const struct tern_encode_context *context,
                                                     const struct tern_model *model, float *values,
                                                     uint8_t *dst, size_t dst_size,
                                                     size_t *written);

// Receives a container in pieces, so that it need not fit into memory. A payload of float32, float16 or bfloat16 comes in
// pieces of TERN_CONTAINER_PIECE values, other payloads come whole.
struct tern_container_sink {
    void *ctx;
    uint8_t *piece;    // buffer for one encoded piece
    size_t piece_size; // at least tern_container_piece_bound()
    TERN_MUST_USE enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
};

// Returns the size limit of a piece, in bytes.
size_t tern_container_piece_bound(const struct tern_codec *codec, const struct tern_model *model);

// Like tern_container_encode(), into a sink. After an error of take() the values are unspecified.
TERN_MUST_USE enum tern_result tern_container_encode_into(const struct tern_codec *codec,
                                                          const struct tern_encode_context *context,
                                                          const struct tern_model *model,
                                                          float *values,
                                                          const struct tern_container_sink *sink,
                                                          size_t *written);

// Checks an untrusted container and describes it: *info has the totals of all segments; mode, ternary and scale are those of
// the largest coded segment.
// Errors of tern_codec_decode(), and TERN_ERR_CORRUPT if lengths do not fit or bytes are left over.
TERN_MUST_USE enum tern_result tern_container_inspect(const struct tern_model *model,
                                                      const uint8_t *src, size_t src_len,
                                                      struct tern_codec_info *info);

// Adds weight * decoded[i] to each acc[i]. Checks the whole container first: on error acc is unchanged.
TERN_MUST_USE enum tern_result tern_container_accumulate(const struct tern_model *model,
                                                         const uint8_t *src, size_t src_len,
                                                         float weight, float *acc);

// Like tern_container_accumulate(), but checks and adds each payload in one pass: on error acc is unspecified.
TERN_MUST_USE enum tern_result tern_container_add(const struct tern_model *model,
                                                  const uint8_t *src, size_t src_len, float weight,
                                                  float *acc);

// Receives the values of a container segment by segment, without memory for the whole model.
struct tern_container_visitor {
    void *ctx;
    // Returns true to read the payload of a segment. NULL: reads all.
    bool (*wants)(void *ctx, uint32_t segment);
    // Takes values of a ternary segment that are not 0, by their indices in the segment. Called for coders that store gaps, and
    // for planar coders if few values are not 0. NULL: not wanted.
    void (*signs)(void *ctx, uint32_t segment, float scale, const struct tern_indices *indices);
    // Takes values first..first + count of a segment. Values that are not passed at all are 0. NULL: such payloads are only
    // checked.
    TERN_MUST_USE enum tern_result (*values)(void *ctx, uint32_t segment, uint32_t first,
                                             const float *values, uint32_t count);
    // Returns memory for `count` values, to decode a whole segment for values(); NULL: no memory.
    float *(*scratch)(void *ctx, uint32_t count);
    // values() takes only payloads that are slow to read (uniform). Those for which scratch() returns NULL are only checked.
    bool slow_only;
};

// Passes the values of an untrusted container to a visitor, which may receive values before an error is found. info: as from
// tern_container_inspect(), over the wanted segments; or NULL.
// TERN_ERR_NO_MEMORY  scratch() returned NULL; errors of tern_container_inspect() and of values()
TERN_MUST_USE enum tern_result tern_container_each(const struct tern_model *model,
                                                   const uint8_t *src, size_t src_len,
                                                   const struct tern_container_visitor *visitor,
                                                   struct tern_codec_info *info);

// Adds decoded[i] to acc[i] in the segments that have error feedback. Checks the whole container first: on error acc is
// unchanged.
TERN_MUST_USE enum tern_result tern_container_give_back(const struct tern_model *model,
                                                        const uint8_t *src, size_t src_len,
                                                        float *acc);

// Decodes a container into dst[0..model->count). Checks all of it first: on error dst is unchanged.
TERN_MUST_USE enum tern_result tern_container_decode(const struct tern_model *model,
                                                     const uint8_t *src, size_t src_len,
                                                     float *dst);

// --- A container that is read in pieces

#define TERN_CONTAINER_PIECE 262144u

// A container that need not fit into memory. Payloads of float32, float16 and bfloat16, as those of snapshots, are read in
// pieces of TERN_CONTAINER_PIECE values, other payloads whole.
struct tern_container_source {
    void *ctx;
    size_t len; // of the container

    // Sets *data to `len` bytes of the container from `offset`, valid until the next call. The functions below pass its
    // errors on.
    TERN_MUST_USE enum tern_result (*view)(void *ctx, size_t offset, size_t len,
                                           const uint8_t **data);
};

// Checks an untrusted container. *peak: its largest decoded magnitude. Errors of tern_container_inspect().
TERN_MUST_USE enum tern_result
tern_container_source_check(const struct tern_model *model,
                            const struct tern_container_source *source, float *peak);

// Adds decoded[i] to each acc[i] (add), or decodes into dst (decode). The container was checked before. On error, for example
// if it has changed since, acc or dst is unspecified.
TERN_MUST_USE enum tern_result tern_container_source_add(const struct tern_model *model,
                                                         const struct tern_container_source *source,
                                                         float *acc);

TERN_MUST_USE enum tern_result
tern_container_source_decode(const struct tern_model *model,
                             const struct tern_container_source *source, float *dst);

#ifdef __cplusplus
}
#endif

#endif
