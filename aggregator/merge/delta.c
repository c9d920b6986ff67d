#include "merge/delta.h"

#include "codec/sparse_share.h"
#include "util/bytes.h"
#include "wire/wire.h"
#include <math.h>
#include <string.h>

// Partial sums, so that the processor can add several values at once: an addition to one sum waits for the addition before.
#define LANES 8

double tern_distance(const float *a, const float *b, uint32_t count)
{
    double sums[LANES] = {0.0};
    double sum = 0.0;
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const double difference = (double)a[i + lane] - (b != NULL ? (double)b[i + lane] : 0.0);
            sums[lane] += difference * difference;
        }
    }
    for (; i < count; i++) {
        const double difference = (double)a[i] - (b != NULL ? (double)b[i] : 0.0);
        sums[0] += difference * difference;
    }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        sum += sums[lane];
    }
    return sqrt(sum);
}

double tern_difference(const float *a, const float *b, float *difference, uint32_t count,
                       uint32_t measured)
{
    double sums[LANES] = {0.0};
    double sum = 0.0;
    uint32_t i = 0;
    for (; i + LANES <= measured; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const float value = a[i + lane] - b[i + lane];
            difference[i + lane] = value;
            sums[lane] += (double)value * (double)value;
        }
    }
    for (; i < count; i++) {
        difference[i] = a[i] - b[i];
        sums[0] += i < measured ? (double)difference[i] * (double)difference[i] : 0.0;
    }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        sum += sums[lane];
    }
    return sqrt(sum);
}

size_t tern_download_blob_bound(const struct tern_codec *codec, const struct tern_model *model)
{
    return tern_container_bound(codec, model) + TERN_WIRE_OVERHEAD;
}

// Returns where the container is encoded: behind room for the message's other fields.
static uint8_t *container_of(const struct tern_download_buffers *buffers)
{
    return buffers->blob + TERN_WIRE_OVERHEAD;
}

static size_t container_room(const struct tern_download_buffers *buffers)
{
    return buffers->blob_size > TERN_WIRE_OVERHEAD ? buffers->blob_size - TERN_WIRE_OVERHEAD : 0;
}

static enum tern_result encode(const struct tern_model *model, const struct tern_codec *codec,
                               const struct tern_encode_context *context,
                               const struct tern_download_buffers *buffers, size_t *len)
{
    const size_t room = container_room(buffers);
    return room > 0 ? tern_container_encode(codec, context, model, buffers->scratch,
                                            container_of(buffers), room, len)
                    : TERN_ERR_NO_SPACE;
}

// Writes the Download message around the container, and hashes the result.
static enum tern_result wrap(const tern_Download *message, size_t container_len,
                             const struct tern_download_buffers *buffers,
                             struct tern_download_made *made)
{
    size_t head = 0;
    TERN_TRY(
        tern_wire_begin_download(message, container_len, buffers->blob, TERN_WIRE_OVERHEAD, &head));
    memmove(buffers->blob + head, container_of(buffers), container_len);
    made->len = head + container_len;
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
    return tern_download_difference(model, codec, context, replica, from, buffers, made);
}

enum tern_result tern_download_difference(const struct tern_model *model,
                                          const struct tern_codec *codec,
                                          const struct tern_encode_context *context, float *replica,
                                          const uint8_t from[TERN_SHA256_SIZE],
                                          const struct tern_download_buffers *buffers,
                                          struct tern_download_made *made)
{
    size_t len = 0;
    struct tern_encode_context adding = *context;
    adding.replica = replica;
    TERN_TRY(encode(model, codec, &adding, buffers, &len));

    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_DELTA;
    message.version = context->round;
    message.from.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.from.bytes, from, TERN_WIRE_REPLICA_BYTES);
    TERN_TRY(wrap(&message, len, buffers, made));
    made->codec = *codec;

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
    TERN_TRY(tern_sparse_indices(model, codec, container, len, container_of(buffers),
                                 container_room(buffers), &indices_len));
    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_INDICES;
    message.version = version;
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model->hash, TERN_SHA256_SIZE);
    made->codec = *codec;
    return wrap(&message, indices_len, buffers, made);
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
    TERN_TRY(encode(model, codec, context, buffers, &len));
    uint8_t content[TERN_SHA256_SIZE];
    tern_sha256(container_of(buffers), len, content);
    tern_replica_from_snapshot(model->hash, context->round, content, made->replica);

    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT;
    message.version = context->round;
    message.to.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, made->replica, TERN_SHA256_SIZE);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model->hash, TERN_SHA256_SIZE);
    TERN_TRY(wrap(&message, len, buffers, made));
    made->codec = *codec;
    return tern_container_decode(model, buffers->blob + made->len - len, len, replica);
}
