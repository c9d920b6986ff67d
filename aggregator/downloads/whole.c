#include "downloads/whole.h"

#include "codec/container.h"
#include "codec/kernels/kernels.h"
#include "codec/list.h"
#include "util/bytes.h"
#include "wire/wire.h"
#include <string.h>

// The container's values are copied from memory without conversion.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "float32 payloads are little-endian");

#define PIECE_VALUES 262144u

static const struct tern_codec dense = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};

// --- The container

// The layout of a float32 container of the weights (FORMAT.md, sections 3 and 4).
struct whole {
    const struct tern_model *model;
    const float *weights;
    bool zero[TERN_MODEL_MAX_TENSORS]; // whether all values of a segment are 0
    size_t len;                        // of the container
};

static size_t put_head(const struct whole *whole, uint32_t segment,
                       uint8_t head[TERN_VARINT_MAX + 1])
{
    const size_t values = whole->zero[segment] ? 0 : whole->model->segments[segment].count;
    const size_t len = tern_put_varint(head, 1 + values * sizeof(float));
    head[len] = whole->zero[segment] ? TERN_MODE_ZERO : TERN_MODE_FLOAT32;
    return len + 1;
}

static bool is_zero(const float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != 0.0F) {
            return false;
        }
    }
    return true;
}

// Reads few values of a segment that is not zero.
static void lay_out(const struct tern_model *model, const float *weights, struct whole *whole)
{
    *whole = (struct whole){.model = model, .weights = weights};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        uint8_t head[TERN_VARINT_MAX + 1];
        whole->zero[i] = is_zero(weights + segment->offset, segment->count);
        whole->len += put_head(whole, i, head);
        whole->len += whole->zero[i] ? 0 : segment->count * sizeof(float);
    }
}

static enum tern_result measure_container(const struct tern_model *model, const float *weights,
                                          struct whole *whole)
{
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (tern_kernel_peak(weights + segment->offset, segment->count) >= TERN_INFINITY_BITS) {
            return TERN_ERR_NON_FINITE;
        }
    }
    lay_out(model, weights, whole);
    return TERN_OK;
}

static enum tern_result send_values(const struct whole *whole, const struct tern_segment *segment,
                                    const struct tern_download_sink *sink)
{
    for (uint32_t done = 0; done < segment->count;) {
        const uint32_t left = segment->count - done;
        const uint32_t n = left < PIECE_VALUES ? left : PIECE_VALUES;
        const float *values = whole->weights + segment->offset + done;
        TERN_TRY(sink->take(sink->ctx, (const uint8_t *)values, n * sizeof(float)));
        done += n;
    }
    return TERN_OK;
}

static enum tern_result send_container(const struct whole *whole,
                                       const struct tern_download_sink *sink)
{
    for (uint32_t i = 0; i < whole->model->segment_count; i++) {
        uint8_t head[TERN_VARINT_MAX + 1];
        TERN_TRY(sink->take(sink->ctx, head, put_head(whole, i, head)));
        if (!whole->zero[i]) {
            TERN_TRY(send_values(whole, &whole->model->segments[i], sink));
        }
    }
    return TERN_OK;
}

// --- The hashes of the container and of the download

struct hashed {
    struct tern_sha256 hash;
    const struct tern_download_sink *sink; // NULL: only hashes the bytes
};

static enum tern_result hash_and_take(void *ctx, const uint8_t *data, size_t len)
{
    struct hashed *hashed = ctx;
    tern_sha256_update(&hashed->hash, data, len);
    return hashed->sink != NULL ? hashed->sink->take(hashed->sink->ctx, data, len) : TERN_OK;
}

static enum tern_result begin(const struct whole *whole, const uint8_t id[TERN_SHA256_SIZE],
                              uint32_t version, uint8_t head[TERN_WIRE_OVERHEAD], size_t *head_len)
{
    tern_Download message = tern_Download_init_zero;
    message.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT;
    message.version = version;
    message.to.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, id, TERN_SHA256_SIZE);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, whole->model->hash, TERN_SHA256_SIZE);
    return tern_wire_begin_download(&message, whole->len, head, TERN_WIRE_OVERHEAD, head_len);
}

static enum tern_result make(const struct whole *whole, const uint8_t id[TERN_SHA256_SIZE],
                             uint32_t version, const struct tern_download_sink *sink,
                             struct tern_download_made *made)
{
    struct hashed hashed = {.sink = sink};
    const struct tern_download_sink both = {&hashed, hash_and_take};
    uint8_t head[TERN_WIRE_OVERHEAD];
    size_t head_len = 0;
    TERN_TRY(begin(whole, id, version, head, &head_len));
    tern_sha256_init(&hashed.hash);
    TERN_TRY(both.take(both.ctx, head, head_len));
    TERN_TRY(send_container(whole, &both));
    *made = (struct tern_download_made){
        .len = head_len + whole->len, .payload = whole->len, .codec = dense};
    tern_sha256_final(&hashed.hash, made->sha256);
    memcpy(made->replica, id, TERN_SHA256_SIZE);
    return TERN_OK;
}

enum tern_result tern_whole_snapshot(const struct tern_model *model, const float *weights,
                                     const uint8_t id[TERN_SHA256_SIZE], uint32_t version,
                                     const struct tern_download_sink *sink,
                                     struct tern_download_made *made)
{
    struct whole whole;
    TERN_TRY(measure_container(model, weights, &whole));
    return make(&whole, id, version, sink, made);
}

enum tern_result tern_whole_opening(const struct tern_model *model, const float *weights,
                                    uint32_t version, const struct tern_download_sink *sink,
                                    struct tern_download_made *made)
{
    struct whole whole;
    struct hashed hashed = {.sink = NULL};
    const struct tern_download_sink only_hash = {&hashed, hash_and_take};
    uint8_t content[TERN_SHA256_SIZE];
    uint8_t id[TERN_SHA256_SIZE];
    TERN_TRY(measure_container(model, weights, &whole));
    tern_sha256_init(&hashed.hash);
    TERN_TRY(send_container(&whole, &only_hash));
    tern_sha256_final(&hashed.hash, content);
    tern_replica_from_snapshot(model->hash, version, content, id);
    return make(&whole, id, version, sink, made);
}

size_t tern_whole_size(const struct tern_model *model, const float *weights, uint32_t version)
{
    static const uint8_t any[TERN_SHA256_SIZE];
    struct whole whole;
    uint8_t head[TERN_WIRE_OVERHEAD];
    size_t head_len = 0;
    lay_out(model, weights, &whole);
    return begin(&whole, any, version, head, &head_len) == TERN_OK ? head_len + whole.len : 0;
}
