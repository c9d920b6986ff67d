#include "lgc/message.h"

#include "codec/coders/index_sets.h"
#include "util/bytes.h"
#include "util/math.h"
#include <string.h>

enum { SCALE_BYTES = 4, HEAD_MAX = 1 + TERN_VARINT_MAX };

const char *tern_lgc_kind_name(enum tern_lgc_kind kind)
{
    static const char *const names[TERN_LGC_PIECE_KINDS] = {"exact", "indices",    "values",
                                                            "code",  "innovation", "weights"};
    return names[kind];
}

static size_t indices_bound(const struct tern_lgc_plan *plan)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        sum += plan->parts[i].role == TERN_LGC_EXACT
                   ? 0
                   : TERN_VARINT_MAX + tern_index_set_bound(plan->parts[i].count);
    }
    return sum;
}

size_t tern_lgc_message_bound(const struct tern_lgc_plan *plan, size_t weights)
{
    return TERN_LGC_PIECE_KINDS * (HEAD_MAX + SCALE_BYTES) + tern_codec_bound_any(plan->exact) +
           indices_bound(plan) + tern_codec_bound_any(tern_lgc_picks(plan)) +
           2 * tern_codec_bound_any(plan->learned) + tern_codec_bound_any(weights);
}

void tern_lgc_message_clear(struct tern_lgc_message *message)
{
    message->len = 0;
    memset(message->of_kind, 0, sizeof message->of_kind);
}

// --- Writing

// Returns where the body of the next piece is written, after room for the longest head.
static uint8_t *body_of(const struct tern_lgc_message *message, size_t *room)
{
    const size_t left = message->size - message->len;
    *room = left > HEAD_MAX ? left - HEAD_MAX : 0;
    return message->bytes + message->len + (left > HEAD_MAX ? HEAD_MAX : left);
}

static void finish(struct tern_lgc_message *message, enum tern_lgc_kind kind, size_t len)
{
    uint8_t *at = message->bytes + message->len;
    uint8_t length[TERN_VARINT_MAX];
    const size_t length_bytes = tern_put_varint(length, len);
    memmove(at + 1 + length_bytes, at + HEAD_MAX, len);
    at[0] = (uint8_t)kind;
    memcpy(at + 1, length, length_bytes);
    message->len += 1 + length_bytes + len;
    message->of_kind[kind] += 1 + length_bytes + len;
}

enum tern_result tern_lgc_put_values(struct tern_lgc_message *message, enum tern_lgc_kind kind,
                                     const struct tern_codec *codec, float *values, size_t count)
{
    size_t room = 0;
    uint8_t *body = body_of(message, &room);
    size_t len = 0;
    if (count > 0) {
        TERN_TRY(tern_codec_encode(codec, NULL, values, count, body, room, &len));
    }
    finish(message, kind, len);
    return TERN_OK;
}

enum tern_result tern_lgc_put_scaled(struct tern_lgc_message *message, enum tern_lgc_kind kind,
                                     float scale, const struct tern_codec *codec, float *values,
                                     size_t count)
{
    size_t room = 0;
    uint8_t *body = body_of(message, &room);
    size_t len = 0;
    if (room < SCALE_BYTES) {
        return TERN_ERR_NO_SPACE;
    }
    TERN_TRY(tern_codec_encode(codec, NULL, values, count, body + SCALE_BYTES, room - SCALE_BYTES,
                               &len));
    tern_put_f32(body, scale);
    finish(message, kind, SCALE_BYTES + len);
    return TERN_OK;
}

// Writes a tensor's index set with its length before it; returns the end.
static uint8_t *put_set(const struct tern_lgc_part *part, const uint32_t *at, uint8_t *dst)
{
    uint8_t *set = dst + TERN_VARINT_MAX;
    struct tern_index_writer writer = tern_index_set_begin(set, part->count, part->picks);
    for (uint32_t i = 0; i < part->picks; i++) {
        tern_index_set_add(&writer, at[part->first + i] - part->offset);
    }
    const size_t len = (size_t)(tern_index_set_end(&writer) - set);
    const size_t head = tern_put_varint(dst, len);
    memmove(dst + head, set, len);
    return dst + head + len;
}

enum tern_result tern_lgc_put_indices(struct tern_lgc_message *message,
                                      const struct tern_lgc_plan *plan, const uint32_t *at)
{
    size_t room = 0;
    uint8_t *body = body_of(message, &room);
    if (room < indices_bound(plan)) {
        return TERN_ERR_NO_SPACE;
    }
    uint8_t *end = body;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        if (plan->parts[i].role != TERN_LGC_EXACT) {
            end = put_set(&plan->parts[i], at, end);
        }
    }
    finish(message, TERN_LGC_PIECE_INDICES, (size_t)(end - body));
    return TERN_OK;
}

// --- Reading

struct span {
    const uint8_t *bytes;
    size_t len;
};

static enum tern_result take_varint(const uint8_t *bytes, size_t len, size_t *at, size_t *value)
{
    uint64_t number = 0;
    const size_t used = tern_get_varint(bytes + *at, len - *at, &number);
    if (used == 0 || number > len - *at - used) {
        return TERN_ERR_CORRUPT;
    }
    *at += used;
    *value = (size_t)number;
    return TERN_OK;
}

// Returns the body of the next piece, and moves the reader past it.
static enum tern_result take_body(struct tern_lgc_reader *reader, enum tern_lgc_kind kind,
                                  struct span *body)
{
    reader->asked = kind;
    if (reader->read == reader->len || reader->bytes[reader->read] != (uint8_t)kind) {
        return TERN_ERR_NOT_FOUND;
    }
    size_t at = reader->read + 1;
    TERN_TRY(take_varint(reader->bytes, reader->len, &at, &body->len));
    body->bytes = reader->bytes + at;
    reader->read = at + body->len;
    return TERN_OK;
}

enum tern_result tern_lgc_take_values(struct tern_lgc_reader *reader, enum tern_lgc_kind kind,
                                      float *values, size_t count)
{
    struct span body;
    TERN_TRY(take_body(reader, kind, &body));
    if (count == 0) {
        return body.len == 0 ? TERN_OK : TERN_ERR_CORRUPT;
    }
    return tern_codec_decode(body.bytes, body.len, values, count);
}

enum tern_result tern_lgc_take_scaled(struct tern_lgc_reader *reader, enum tern_lgc_kind kind,
                                      float *scale, float *values, size_t count)
{
    struct span body;
    TERN_TRY(take_body(reader, kind, &body));
    if (body.len < SCALE_BYTES) {
        return TERN_ERR_CORRUPT;
    }
    const float read = tern_get_f32(body.bytes);
    if (!tern_is_finite(read)) {
        return TERN_ERR_NON_FINITE;
    }
    TERN_TRY(tern_codec_decode(body.bytes + SCALE_BYTES, body.len - SCALE_BYTES, values, count));
    *scale = read;
    return TERN_OK;
}

static enum tern_result take_set(const struct tern_lgc_part *part, struct span body, size_t *at,
                                 uint32_t *to)
{
    size_t len = 0;
    struct tern_index_set set;
    TERN_TRY(take_varint(body.bytes, body.len, at, &len));
    if (!tern_index_set_open(body.bytes + *at, len, 0, part->count, &set) ||
        set.members != part->picks) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(tern_index_set_check(&set));
    *at += len;
    struct tern_index_reader reader = {.set = &set};
    for (uint32_t i = 0; i < part->picks; i++) {
        to[i] = part->offset + (uint32_t)tern_index_next(&reader);
    }
    return TERN_OK;
}

enum tern_result tern_lgc_take_indices(struct tern_lgc_reader *reader,
                                       const struct tern_lgc_plan *plan, uint32_t *at)
{
    struct span body;
    size_t read = 0;
    TERN_TRY(take_body(reader, TERN_LGC_PIECE_INDICES, &body));
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct tern_lgc_part *part = &plan->parts[i];
        if (part->role != TERN_LGC_EXACT) {
            TERN_TRY(take_set(part, body, &read, at + part->first));
        }
    }
    return read == body.len ? TERN_OK : TERN_ERR_CORRUPT;
}

enum tern_result tern_lgc_take_end(const struct tern_lgc_reader *reader)
{
    return reader->read == reader->len ? TERN_OK : TERN_ERR_CORRUPT;
}
