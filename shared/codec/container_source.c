#include "codec/container.h"

#include "codec/modes.h"

// Handles the pieces of payloads. piece() gets the piece's first value in `values`, or NULL.
struct work {
    enum tern_result (*piece)(const struct tern_mode *mode, const uint8_t *body, size_t len,
                              float *values, size_t count, float *peak);
    float *values; // [model->count], or NULL
    float peak;
};

// The bytes of a payload in the container.
struct place {
    size_t at;
    size_t len;
};

static enum tern_result next_payload(const struct tern_container_source *source,
                                     struct place *place)
{
    const size_t at = place->at + place->len;
    const size_t left = source->len - at;
    const uint8_t *length = NULL;
    size_t len = 0;
    if (left == 0) {
        return TERN_ERR_CORRUPT;
    }
    const size_t seen = left < TERN_VARINT_MAX ? left : TERN_VARINT_MAX;
    TERN_TRY(source->view(source->ctx, at, seen, &length));
    const size_t length_bytes = tern_payload_length(length, seen, left, &len);
    if (length_bytes == 0 || len == 0) { // a payload has a mode byte
        return TERN_ERR_CORRUPT;
    }
    *place = (struct place){at + length_bytes, len};
    return TERN_OK;
}

// Returns the bytes per value of a payload that can be cut between values; 0 for other modes.
static size_t bytes_of_value(enum tern_mode_byte mode)
{
    switch ((int)mode) {
    case TERN_MODE_FLOAT32:
        return 4;
    case TERN_MODE_FLOAT16:
    case TERN_MODE_BFLOAT16:
        return 2;
    default:
        return 0;
    }
}

static enum tern_result run_pieces(const struct tern_container_source *source,
                                   const struct place *place, const struct tern_mode *mode,
                                   size_t stride, size_t count, struct work *work, float *values)
{
    if ((place->len - 1) / stride != count || (place->len - 1) % stride != 0) {
        return TERN_ERR_CORRUPT;
    }
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < TERN_CONTAINER_PIECE ? count - done : TERN_CONTAINER_PIECE;
        const uint8_t *body = NULL;
        TERN_TRY(source->view(source->ctx, place->at + 1 + done * stride, n * stride, &body));
        TERN_TRY(work->piece(mode, body, n * stride, values != NULL ? values + done : NULL, n,
                             &work->peak));
        done += n;
    }
    return TERN_OK;
}

static enum tern_result run_payload(const struct tern_container_source *source,
                                    const struct place *place, size_t count, struct work *work,
                                    float *values)
{
    const uint8_t *payload = NULL;
    TERN_TRY(source->view(source->ctx, place->at, 1, &payload));
    const struct tern_mode *mode = tern_mode_of(payload[0]);
    if (mode == NULL) {
        return TERN_ERR_UNKNOWN;
    }
    const size_t stride = bytes_of_value(mode->byte);
    if (stride > 0) {
        return run_pieces(source, place, mode, stride, count, work, values);
    }
    TERN_TRY(source->view(source->ctx, place->at, place->len, &payload));
    return work->piece(mode, payload + 1, place->len - 1, values, count, &work->peak);
}

static enum tern_result run(const struct tern_model *model,
                            const struct tern_container_source *source, struct work *work)
{
    struct place place = {0, 0};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        float *values = work->values != NULL ? work->values + segment->offset : NULL;
        TERN_TRY(next_payload(source, &place));
        TERN_TRY(run_payload(source, &place, segment->count, work, values));
    }
    return place.at + place.len == source->len ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result inspect(const struct tern_mode *mode, const uint8_t *body, size_t len,
                                float *values, size_t count, float *peak)
{
    struct tern_codec_info info = {.mode = mode->name};
    (void)values;
    TERN_TRY(mode->check(body, len, count));
    mode->describe(body, len, count, &info);
    *peak = info.maximum > *peak ? info.maximum : *peak;
    return TERN_OK;
}

static enum tern_result add(const struct tern_mode *mode, const uint8_t *body, size_t len,
                            float *values, size_t count, float *peak)
{
    (void)peak;
    TERN_TRY(mode->check(body, len, count));
    mode->accumulate(body, len, 1, values, count);
    return TERN_OK;
}

static enum tern_result decode(const struct tern_mode *mode, const uint8_t *body, size_t len,
                               float *values, size_t count, float *peak)
{
    (void)peak;
    TERN_TRY(mode->check(body, len, count));
    mode->decode(body, len, values, count);
    return TERN_OK;
}

enum tern_result tern_container_source_check(const struct tern_model *model,
                                             const struct tern_container_source *source,
                                             float *peak)
{
    struct work work = {.piece = inspect};
    TERN_TRY(run(model, source, &work));
    *peak = work.peak;
    return TERN_OK;
}

enum tern_result tern_container_source_add(const struct tern_model *model,
                                           const struct tern_container_source *source, float *acc)
{
    struct work work = {.piece = add, .values = acc};
    return run(model, source, &work);
}

enum tern_result tern_container_source_decode(const struct tern_model *model,
                                              const struct tern_container_source *source,
                                              float *dst)
{
    struct work work = {.piece = decode, .values = dst};
    return run(model, source, &work);
}
