#include "codec/container.h"

#include "codec/modes.h"
#include "util/bytes.h"
#include <string.h>

// --- Encoding
// ---------------------------------------------------------------------------------------------

static size_t varint_length(size_t value)
{
    uint8_t scratch[TERN_VARINT_MAX];
    return tern_put_varint(scratch, value);
}

static size_t segment_bound(size_t payload_bound)
{
    return varint_length(payload_bound) + payload_bound;
}

size_t tern_container_bound(const struct tern_codec *codec, const struct tern_model *model)
{
    size_t bound = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        bound += segment_bound(tern_codec_bound(codec, model->segments[i].count));
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

// Writes one segment at job->dst: the payload first, behind room for the longest length it may
// have, then moved up to its length.
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

// The part of a context that belongs to one segment.
static struct tern_encode_context segment_context(const struct tern_encode_context *whole,
                                                  uint32_t index, uint32_t offset)
{
    struct tern_encode_context context = *whole;
    context.segment = index;
    if (context.velocity != NULL) {
        context.velocity += offset;
    }
    return context;
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
    struct tern_encode_job job = {.codec = codec, .context = whole};
    float peaks[TERN_MODEL_MAX_TENSORS];
    for (uint32_t i = 0; i < model->segment_count; i++) {
        job.values = values + model->segments[i].offset;
        job.count = model->segments[i].count;
        TERN_TRY(tern_codec_check(&job, &peaks[i]));
    }
    size_t at = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        struct tern_encode_context part = segment_context(whole, i, segment->offset);
        job = (struct tern_encode_job){
            .codec = codec,
            .context = &part,
            .peak = peaks[i],
            .values = values + segment->offset,
            .count = segment->count,
            .dst = dst + at,
        };
        at += emit_segment(&job);
    }
    *written = at;
    return TERN_OK;
}

// --- Decoding
// ---------------------------------------------------------------------------------------------

struct payload {
    const uint8_t *data;
    size_t len;
    const struct tern_mode *mode;
};

// Finds and checks the payloads of all segments.
static enum tern_result check_all(const struct tern_model *model, const uint8_t *src,
                                  size_t src_len, struct payload payloads[TERN_MODEL_MAX_TENSORS])
{
    for (uint32_t i = 0; i < model->segment_count; i++) {
        uint64_t len = 0;
        size_t length_bytes = tern_get_varint(src, src_len, &len);
        // len is compared with what is left before it is used to step over it.
        if (length_bytes == 0 || len > src_len - length_bytes) {
            return TERN_ERR_CORRUPT;
        }
        struct payload *payload = &payloads[i];
        payload->data = src + length_bytes;
        payload->len = (size_t)len;
        TERN_TRY(tern_payload_check(payload->data, payload->len, model->segments[i].count,
                                    &payload->mode));
        src += length_bytes + payload->len;
        src_len -= length_bytes + payload->len;
    }
    return src_len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

static void add_info(struct tern_codec_info *sum, const struct tern_codec_info *part)
{
    sum->nonzero += part->nonzero;
    sum->runs += part->runs;
    sum->sum_square += part->sum_square;
    sum->maximum = part->maximum > sum->maximum ? part->maximum : sum->maximum;
}

enum tern_result tern_container_inspect(const struct tern_model *model, const uint8_t *src,
                                        size_t src_len, struct tern_codec_info *info)
{
    struct payload payloads[TERN_MODEL_MAX_TENSORS];
    TERN_TRY(check_all(model, src, src_len, payloads));
    struct tern_codec_info sum = {.mode = "none"};
    uint32_t largest = 0;
    for (uint32_t i = 0; i < model->segment_count; i++) {
        uint32_t count = model->segments[i].count;
        struct tern_codec_info part;
        tern_payload_describe(payloads[i].mode, payloads[i].data, payloads[i].len, count, &part);
        add_info(&sum, &part);
        if (count > largest) {
            largest = count;
            sum.ternary = part.ternary;
            sum.mode = part.mode;
            sum.scale = part.scale;
        }
    }
    *info = sum;
    return TERN_OK;
}

enum tern_result tern_container_accumulate(const struct tern_model *model, const uint8_t *src,
                                           size_t src_len, float weight, float *acc)
{
    struct payload payloads[TERN_MODEL_MAX_TENSORS];
    TERN_TRY(check_all(model, src, src_len, payloads));
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        payloads[i].mode->accumulate(payloads[i].data + 1, payloads[i].len - 1, weight,
                                     acc + segment->offset, segment->count);
    }
    return TERN_OK;
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
