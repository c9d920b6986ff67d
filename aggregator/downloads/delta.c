#include "downloads/delta.h"

#include "codec/sparse_share.h"
#include "util/bytes.h"
#include "wire/wire.h"
#include <string.h>

static const struct tern_codec dense = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};

size_t tern_download_blob_bound(const struct tern_codec *codec, const struct tern_model *model)
{
    return tern_container_bound(codec, model) + TERN_WIRE_OVERHEAD;
}

// Wraps the container into the Download message and names the result.
static enum tern_result wrap(const tern_Download *message, size_t container_len,
                             const struct tern_download_buffers *buffers,
                             struct tern_download_made *made)
{
    struct tern_span container = {buffers->container, container_len};
    TERN_TRY(tern_wire_encode_download(message, container, buffers->blob, buffers->blob_size,
                                       &made->len));
    made->payload = container_len;
    tern_sha256(buffers->blob, made->len, made->sha256);
    return TERN_OK;
}

enum tern_result tern_download_delta(const struct tern_model *model, const struct tern_codec *codec,
                                     const struct tern_encode_context *context, const float *global,
                                     float *replica, const uint8_t from[TERN_SHA256_SIZE],
                                     const struct tern_download_buffers *buffers,
                                     struct tern_download_made *made)
{
    for (uint32_t i = 0; i < model->count; i++) {
        buffers->scratch[i] = global[i] - replica[i];
    }
    size_t len = 0;
    TERN_TRY(tern_container_encode(codec, context, model, buffers->scratch, buffers->container,
                                   buffers->container_size, &len));

    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_DELTA;
    message.version = context->round;
    message.from.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.from.bytes, from, TERN_WIRE_REPLICA_BYTES);
    TERN_TRY(wrap(&message, len, buffers, made));
    made->codec = *codec;

    // What was just encoded is whole.
    TERN_TRY(tern_container_add(model, buffers->container, len, 1.0F, replica));
    tern_replica_step(from, made->sha256, made->replica);
    return TERN_OK;
}

enum tern_result tern_download_indices(const struct tern_model *model,
                                       const struct tern_codec *codec, const uint8_t *container,
                                       size_t len, uint32_t version,
                                       const struct tern_download_buffers *buffers,
                                       struct tern_download_made *made)
{
    size_t indices_len = 0;
    TERN_TRY(tern_sparse_indices(model, codec, container, len, buffers->container,
                                 buffers->container_size, &indices_len));
    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_INDICES;
    message.version = version;
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model->hash, TERN_SHA256_SIZE);
    made->codec = *codec;
    return wrap(&message, indices_len, buffers, made);
}

enum tern_result tern_download_snapshot(const struct tern_model *model, const float *replica,
                                        const uint8_t id[TERN_SHA256_SIZE], uint32_t version,
                                        const struct tern_download_buffers *buffers,
                                        struct tern_download_made *made)
{
    memcpy(buffers->scratch, replica, model->count * sizeof replica[0]);
    size_t len = 0;
    TERN_TRY(tern_container_encode(&dense, NULL, model, buffers->scratch, buffers->container,
                                   buffers->container_size, &len));

    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT;
    message.version = version;
    message.to.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, id, TERN_SHA256_SIZE);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model->hash, TERN_SHA256_SIZE);
    TERN_TRY(wrap(&message, len, buffers, made));
    made->codec = dense;
    memcpy(made->replica, id, TERN_SHA256_SIZE);
    return TERN_OK;
}

#define OPENING_LABEL "tern replica snapshot"

static void opening_id(const struct tern_model *model, uint32_t version, struct tern_span container,
                       uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_sha256 hash;
    uint8_t number[4];
    uint8_t content[TERN_SHA256_SIZE];
    tern_put_le32(number, version);
    tern_sha256(container.data, container.len, content);
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, OPENING_LABEL, sizeof OPENING_LABEL - 1);
    tern_sha256_update(&hash, model->hash, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, number, sizeof number);
    tern_sha256_update(&hash, content, sizeof content);
    tern_sha256_final(&hash, id);
}

enum tern_result tern_download_opening(const struct tern_model *model,
                                       const struct tern_codec *codec,
                                       const struct tern_encode_context *context,
                                       const float *global, float *replica,
                                       const struct tern_download_buffers *buffers,
                                       struct tern_download_made *made)
{
    memcpy(buffers->scratch, global, model->count * sizeof global[0]);
    size_t len = 0;
    TERN_TRY(tern_container_encode(codec, context, model, buffers->scratch, buffers->container,
                                   buffers->container_size, &len));
    struct tern_span container = {buffers->container, len};
    opening_id(model, context->round, container, made->replica);

    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT;
    message.version = context->round;
    message.to.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, made->replica, TERN_SHA256_SIZE);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model->hash, TERN_SHA256_SIZE);
    TERN_TRY(wrap(&message, len, buffers, made));
    made->codec = *codec;
    return tern_container_decode(model, container.data, container.len, replica);
}
