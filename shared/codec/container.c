#include "codec/container.h"

#include "codec/modes.h"
#include "util/bytes.h"
#include <string.h>

// --- Encoding

static size_t varint_length(size_t value)
{
    uint8_t scratch[TERN_VARINT_MAX];
    return tern_put_varint(scratch, value);
}

// Encodes dense and skipped segments as float32: a snapshot has their weights, and the change of a skipped one is 0.
static const struct tern_codec *codec_of(const struct tern_codec *codec,
                                         const struct tern_segment *segment)
{
    static const struct tern_codec dense = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    return tern_segment_is_coded(segment) ? codec : &dense;
}

static size_t segment_bound(size_t payload_bound)
{
    return varint_length(payload_bound) + payload_bound;
}

size_t tern_container_bound(const struct tern_codec *codec, const struct tern_model *model)
{
    size_t bound = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        bound += segment_bound(tern_codec_bound(codec_of(codec, segment), segment->count));
    }
    return bound;
}

size_t tern_container_bound_any(const struct tern_model *model)
{
    size_t bound = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        bound += segment_bound(tern_codec_bound_any(model->segments[i].count));
    }
    return bound;
}

// Writes the length and payload of one segment at job->dst. The length is known last, so the payload is first written after
// room for the longest possible length.
static size_t emit_segment(struct tern_encode_job *job)
{
    uint8_t *dst = job->dst;
    size_t room = varint_length(tern_codec_bound(job->codec, job->count));
    job->dst += room;
    size_t payload = tern_codec_emit(job);
    uint8_t length[TERN_VARINT_MAX];
    size_t length_bytes = tern_put_varint(length, payload);
    memcpy(dst, length, length_bytes);
    if (length_bytes < room) {
        memmove(dst + length_bytes, dst + room, payload);
    }
    return length_bytes + payload;
}

// Sets *context to the part of `whole` for one segment. Takes the segment's payload from `indices`.
// TERN_ERR_CORRUPT  `indices` has no further payload
static enum tern_result segment_context(const struct tern_encode_context *whole,
                                        const struct tern_model *model, uint32_t index,
                                        struct tern_bytes_left *indices,
                                        struct tern_encode_context *context)
{
    const bool coded = tern_segment_is_coded(&model->segments[index]);
    *context = *whole;
    context->segment = index;
    if (whole->velocity != NULL) {
        context->velocity = whole->velocity + model->segments[index].offset;
    }
#if !TERN_SMALL
    if (whole->replica != NULL) {
        context->replica = whole->replica + model->segments[index].offset;
    }
#endif
    if (whole->indices != NULL) {
        struct tern_bytes_left payload;
        if (!tern_take_payload(indices, &payload)) {
            return TERN_ERR_CORRUPT;
        }
        context->indices = coded ? payload.data : NULL;
        context->indices_len = coded ? payload.len : 0;
    }
    return TERN_OK;
}

static struct tern_encode_job segment_job(const struct tern_codec *codec,
                                          const struct tern_encode_context *context,
                                          const struct tern_segment *segment, float *values)
{
    return (struct tern_encode_job){
        .codec = codec_of(codec, segment),
        .context = context,
        .values = values + segment->offset,
        .count = segment->count,
    };
}

// Sets the peaks of all segments, and checks whether all can be encoded.
static enum tern_result check_segments(const struct tern_codec *codec,
                                       const struct tern_encode_context *whole,
                                       const struct tern_model *model, float *values,
                                       float peaks[TERN_MODEL_MAX_TENSORS])
{
    struct tern_bytes_left indices = {whole->indices, whole->indices_len};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        struct tern_encode_context context;
        TERN_TRY(segment_context(whole, model, i, &indices, &context));
        struct tern_encode_job job = segment_job(codec, &context, &model->segments[i], values);
        TERN_TRY(tern_codec_check(&job, &peaks[i]));
    }
    return whole->indices == NULL || indices.len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Whether a payload of the codec is a mode byte and then one value after another, so that it can be cut anywhere.
static bool goes_by_value(const struct tern_codec *codec)
{
    return codec->id == TERN_CODEC_FLOAT32 || codec->id == TERN_CODEC_FLOAT16 ||
           codec->id == TERN_CODEC_BFLOAT16;
}

// Returns the number of values that go into a sink at once.
static uint32_t piece_values(const struct tern_codec *codec, uint32_t count)
{
    return goes_by_value(codec) && count > TERN_CONTAINER_PIECE ? TERN_CONTAINER_PIECE : count;
}

size_t tern_container_piece_bound(const struct tern_codec *codec, const struct tern_model *model)
{
    size_t most = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        const struct tern_codec *own = codec_of(codec, segment);
        const size_t bound =
            segment_bound(tern_codec_bound(own, piece_values(own, segment->count)));
        most = bound > most ? bound : most;
    }
    return most;
}

// Writes a large payload into a sink in pieces: its length, the mode byte with the first values, then the other values. If
// the first piece has mode zero, all values decode to 0.
static enum tern_result emit_values(const struct tern_encode_job *segment,
                                    const struct tern_container_sink *sink, size_t *len)
{
    struct tern_encode_job job = *segment;
    uint8_t head[TERN_VARINT_MAX];
    job.dst = sink->piece;
    job.count = TERN_CONTAINER_PIECE;
    const size_t first = tern_codec_emit(&job);
    const size_t payload = first == 1 ? 1 : tern_codec_bound(segment->codec, segment->count);
    const size_t head_len = tern_put_varint(head, payload);
    *len = head_len + payload;
    TERN_TRY(sink->take(sink->ctx, head, head_len));
    TERN_TRY(sink->take(sink->ctx, sink->piece, first));
    for (size_t done = job.count; payload > 1 && done < segment->count; done += job.count) {
        const size_t left = segment->count - done;
        job.values = segment->values + done;
        job.count = left < TERN_CONTAINER_PIECE ? left : TERN_CONTAINER_PIECE;
        const size_t piece = tern_codec_emit(&job);
        TERN_TRY(sink->take(sink->ctx, sink->piece + 1, piece - 1)); // without its mode byte
    }
    return TERN_OK;
}

static enum tern_result emit_into(struct tern_encode_job *job,
                                  const struct tern_container_sink *sink, size_t *len)
{
    if (piece_values(job->codec, (uint32_t)job->count) < job->count) {
        return emit_values(job, sink, len);
    }
    job->dst = sink->piece;
    *len = emit_segment(job);
    return sink->take(sink->ctx, sink->piece, *len);
}

// Encodes all segments into the sink, or into dst if sink is NULL.
static enum tern_result emit_segments(const struct tern_codec *codec,
                                      const struct tern_encode_context *whole,
                                      const struct tern_model *model, float *values, uint8_t *dst,
                                      const struct tern_container_sink *sink, size_t *written)
{
    float peaks[TERN_MODEL_MAX_TENSORS];
    TERN_TRY(check_segments(codec, whole, model, values, peaks));
    struct tern_bytes_left indices = {whole->indices, whole->indices_len};
    size_t at = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        struct tern_encode_context part;
        TERN_TRY(segment_context(whole, model, i, &indices, &part));
        struct tern_encode_job job = segment_job(codec, &part, &model->segments[i], values);
        job.peak = peaks[i];
        size_t len = 0;
        if (TERN_PARTIALS && sink != NULL) {
            TERN_TRY(emit_into(&job, sink, &len));
            at += len;
            continue;
        }
        job.dst = dst + at;
        len = emit_segment(&job);
        at += len;
    }
    *written = at;
    return TERN_OK;
}

enum tern_result tern_container_encode(const struct tern_codec *codec,
                                       const struct tern_encode_context *context,
                                       const struct tern_model *model, float *values, uint8_t *dst,
                                       size_t dst_size, size_t *written)
{
    const struct tern_encode_context *whole = context != NULL ? context : &tern_no_context;
    TERN_TRY(tern_codec_needs(codec, whole));
    if (dst_size < tern_container_bound(codec, model)) {
        return TERN_ERR_NO_SPACE;
    }
    return emit_segments(codec, whole, model, values, dst, NULL, written);
}

enum tern_result tern_container_encode_into(const struct tern_codec *codec,
                                            const struct tern_encode_context *context,
                                            const struct tern_model *model, float *values,
                                            const struct tern_container_sink *sink, size_t *written)
{
    const struct tern_encode_context *whole = context != NULL ? context : &tern_no_context;
    TERN_TRY(tern_codec_needs(codec, whole));
    if (sink->piece_size < tern_container_piece_bound(codec, model)) {
        return TERN_ERR_NO_SPACE;
    }
    return emit_segments(codec, whole, model, values, NULL, sink, written);
}

// --- Decoding

struct payload {
    const uint8_t *data;
    size_t len;
    const struct tern_mode *mode;
};

static enum tern_result take(struct tern_bytes_left *rest, struct tern_bytes_left *payload)
{
    return tern_take_payload(rest, payload) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Finds and checks the payloads of all segments.
static enum tern_result check_all(const struct tern_model *model, const uint8_t *src,
                                  size_t src_len, struct payload payloads[TERN_MODEL_MAX_TENSORS])
{
    struct tern_bytes_left rest = {src, src_len};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        struct tern_bytes_left found;
        TERN_TRY(take(&rest, &found));
        struct payload *payload = &payloads[i];
        payload->data = found.data;
        payload->len = found.len;
        TERN_TRY(tern_payload_check(payload->data, payload->len, model->segments[i].count,
                                    &payload->mode));
    }
    return rest.len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Whether `segment` replaces `largest` as the segment whose mode and scale describe the container: coded segments come before
// others, then larger ones before smaller.
static bool is_larger(const struct tern_segment *segment, const struct tern_segment *largest)
{
    if (largest == NULL || tern_segment_is_coded(segment) != tern_segment_is_coded(largest)) {
        return largest == NULL || tern_segment_is_coded(segment);
    }
    return segment->count > largest->count;
}

// Adds a segment's facts to the sum. *largest: the segment so far whose mode and scale the sum has.
static void add_segment(struct tern_codec_info *sum, const struct tern_codec_info *part,
                        const struct tern_segment *segment, const struct tern_segment **largest)
{
    sum->nonzero += part->nonzero;
    sum->runs += part->runs;
    sum->sum_square += part->sum_square;
    sum->maximum = part->maximum > sum->maximum ? part->maximum : sum->maximum;
    if (tern_segment_is_skipped(segment)) {
        sum->skipped_nonzero += part->nonzero;
    }
    if (is_larger(segment, *largest)) {
        *largest = segment;
        sum->ternary = part->ternary;
        sum->mode = part->mode;
        sum->scale = part->scale;
    }
}

// The segment that a visitor receives.
struct visit {
    const struct tern_container_visitor *visitor;
    uint32_t segment;
};

static void visit_signs(void *ctx, float scale, const struct tern_indices *indices)
{
    const struct visit *visit = ctx;
    visit->visitor->signs(visit->visitor->ctx, visit->segment, scale, indices);
}

// Passes the values of a float32 payload to the visitor in chunks, without memory for the whole segment.
static enum tern_result visit_floats(const struct visit *visit, const struct tern_mode *mode,
                                     const uint8_t *body, size_t count)
{
    enum { CHUNK = TERN_SMALL ? 16 : 256 };
    float values[CHUNK];
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        mode->decode(body + sizeof(float) * at, sizeof(float) * n, values, n);
        TERN_TRY(visit->visitor->values(visit->visitor->ctx, visit->segment, (uint32_t)at, values,
                                        (uint32_t)n));
    }
    return TERN_OK;
}

static enum tern_result visit_whole(void *ctx, const struct tern_mode *mode, const uint8_t *body,
                                    size_t len, size_t count, struct tern_codec_info *info)
{
    const struct visit *visit = ctx;
    const struct tern_container_visitor *visitor = visit->visitor;
    if (mode->byte == TERN_MODE_ZERO || (visitor->slow_only && !tern_mode_reads_once(mode))) {
        return TERN_OK;
    }
    if (mode->byte == TERN_MODE_FLOAT32) {
        return visit_floats(visit, mode, body, count);
    }
    float *values = visitor->scratch(visitor->ctx, (uint32_t)count);
    if (values == NULL) {
        return visitor->slow_only ? tern_mode_accumulate(mode, body, len, 0, NULL, count, info)
                                  : TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_mode_decode(mode, body, len, values, count, info));
    return visitor->values(visitor->ctx, visit->segment, 0, values, (uint32_t)count);
}

enum tern_result tern_container_each(const struct tern_model *model, const uint8_t *src,
                                     size_t src_len, const struct tern_container_visitor *visitor,
                                     struct tern_codec_info *info)
{
    struct visit visit = {.visitor = visitor};
    const struct tern_payload_reader reader = {.ctx = &visit,
                                               .signs = visitor->signs != NULL ? visit_signs : NULL,
                                               .whole =
                                                   visitor->values != NULL ? visit_whole : NULL};
    struct tern_bytes_left rest = {src, src_len};
    struct tern_codec_info sum = {.mode = "none"};
    const struct tern_segment *largest = NULL;
    for (; visit.segment < model->segment_count; visit.segment++) {
        const struct tern_segment *segment = &model->segments[visit.segment];
        struct tern_bytes_left payload;
        struct tern_codec_info part;
        TERN_TRY(take(&rest, &payload));
        if (visitor->wants != NULL && !visitor->wants(visitor->ctx, visit.segment)) {
            continue;
        }
        TERN_TRY(tern_payload_read(payload.data, payload.len, segment->count, &reader,
                                   info != NULL ? &part : NULL));
        if (info != NULL) {
            add_segment(&sum, &part, segment, &largest);
        }
    }
    if (rest.len > 0) {
        return TERN_ERR_CORRUPT;
    }
    if (info != NULL) {
        *info = sum;
    }
    return TERN_OK;
}

enum tern_result tern_container_inspect(const struct tern_model *model, const uint8_t *src,
                                        size_t src_len, struct tern_codec_info *info)
{
    static const struct tern_container_visitor nobody = {.ctx = NULL};
    return tern_container_each(model, src, src_len, &nobody, info);
}

// Adds the segments for which wanted() is true.
static enum tern_result accumulate(const struct tern_model *model, const uint8_t *src,
                                   size_t src_len, float weight, float *acc,
                                   bool (*wanted)(const struct tern_segment *segment))
{
    struct payload payloads[TERN_MODEL_MAX_TENSORS];
    TERN_TRY(check_all(model, src, src_len, payloads));
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (wanted(segment)) {
            payloads[i].mode->accumulate(payloads[i].data + 1, payloads[i].len - 1, weight,
                                         acc + segment->offset, segment->count);
        }
    }
    return TERN_OK;
}

static bool any_segment(const struct tern_segment *segment)
{
    (void)segment;
    return true;
}

enum tern_result tern_container_accumulate(const struct tern_model *model, const uint8_t *src,
                                           size_t src_len, float weight, float *acc)
{
    return accumulate(model, src, src_len, weight, acc, any_segment);
}

enum tern_result tern_container_add(const struct tern_model *model, const uint8_t *src,
                                    size_t src_len, float weight, float *acc)
{
    struct tern_bytes_left rest = {src, src_len};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        struct tern_bytes_left payload;
        TERN_TRY(take(&rest, &payload));
        TERN_TRY(tern_payload_add(payload.data, payload.len, weight, acc + segment->offset,
                                  segment->count));
    }
    return rest.len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

enum tern_result tern_container_give_back(const struct tern_model *model, const uint8_t *src,
                                          size_t src_len, float *acc)
{
    return accumulate(model, src, src_len, 1, acc, tern_segment_is_coded);
}

enum tern_result tern_container_decode(const struct tern_model *model, const uint8_t *src,
                                       size_t src_len, float *dst)
{
    struct payload payloads[TERN_MODEL_MAX_TENSORS];
    TERN_TRY(check_all(model, src, src_len, payloads));
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        payloads[i].mode->decode(payloads[i].data + 1, payloads[i].len - 1, dst + segment->offset,
                                 segment->count);
    }
    return TERN_OK;
}
