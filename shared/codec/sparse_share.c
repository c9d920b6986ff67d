#include "codec/sparse_share.h"

#include "codec/coders/index_sets.h"
#include "codec/kernels/kernels.h"
#include "codec/modes.h"
#include <string.h>

enum { VALUE_BYTES = 4 };

// --- Putting a container together

struct output {
    uint8_t *dst;
    size_t size;
    size_t used;
};

// Appends a payload: the mode byte and two parts. The second part may overlap the payload's place, because it is moved first
// and only towards higher addresses.
static enum tern_result put_payload(struct output *out, uint8_t mode, struct tern_bytes_left first,
                                    struct tern_bytes_left second)
{
    uint8_t length[TERN_VARINT_MAX];
    size_t len = 1 + first.len + second.len;
    size_t length_bytes = tern_put_varint(length, len);
    if (len > out->size - out->used || length_bytes > out->size - out->used - len) {
        return TERN_ERR_NO_SPACE;
    }
    uint8_t *at = out->dst + out->used;
    memmove(at + length_bytes + 1 + first.len, second.data, second.len);
    memcpy(at, length, length_bytes);
    at[length_bytes] = mode;
    if (first.len > 0) {
        memcpy(at + length_bytes + 1, first.data, first.len);
    }
    out->used += length_bytes + len;
    return TERN_OK;
}

static const struct tern_bytes_left nothing = {(const uint8_t *)"", 0};

// Appends an unchanged payload.
static enum tern_result copy_payload(struct output *out, struct tern_bytes_left payload)
{
    if (payload.len == 0) {
        return TERN_ERR_CORRUPT;
    }
    return put_payload(out, payload.data[0], nothing,
                       (struct tern_bytes_left){payload.data + 1, payload.len - 1});
}

// Returns the values of a checked sparse payload, which follow its indices.
static struct tern_bytes_left values_of(struct tern_bytes_left payload, size_t count)
{
    struct tern_index_set set;
    size_t head = 1 + tern_bitmap_bytes(count);
    if (payload.data[0] == TERN_MODE_SPARSE_GAPS &&
        tern_index_set_open(payload.data + 1, payload.len - 1, VALUE_BYTES, count, &set)) {
        head = (size_t)(set.values - payload.data);
    }
    return (struct tern_bytes_left){payload.data + head, payload.len - head};
}

static bool is_sparse(struct tern_bytes_left payload)
{
    return payload.data[0] == TERN_MODE_SPARSE_GAPS || payload.data[0] == TERN_MODE_SPARSE_BITMAP;
}

// Takes the next payload and checks it.
static enum tern_result take_checked(struct tern_bytes_left *rest, size_t count,
                                     struct tern_bytes_left *payload)
{
    const struct tern_mode *mode = NULL;
    if (!tern_take_payload(rest, payload)) {
        return TERN_ERR_CORRUPT;
    }
    return tern_payload_check(payload->data, payload->len, count, &mode);
}

// --- The leader's indices

static uint8_t *add_gaps(struct tern_bytes_left payload, size_t count, size_t listed, uint8_t *dst)
{
    struct tern_index_writer writer = tern_index_set_begin(dst, count, listed);
    struct tern_index_set set;
    if (!tern_index_set_open(payload.data + 1, payload.len - 1, VALUE_BYTES, count, &set)) {
        return dst;
    }
    struct tern_index_reader reader = {.set = &set};
    for (size_t i = 0; i < listed; i++) {
        tern_index_set_add(&writer, tern_index_next(&reader));
    }
    return tern_index_set_end(&writer);
}

static uint8_t *add_bitmap(struct tern_bytes_left payload, size_t count, size_t listed,
                           uint8_t *dst)
{
    struct tern_index_writer writer = tern_index_set_begin(dst, count, listed);
    const uint8_t *bitmap = payload.data + 1;
    for (size_t i = 0; i < count; i++) {
        if (bitmap[i / 8] >> i % 8 & 1) {
            tern_index_set_add(&writer, i);
        }
    }
    return tern_index_set_end(&writer);
}

// Appends the indices of a checked payload.
static enum tern_result put_indices(struct output *out, struct tern_bytes_left payload,
                                    size_t count, size_t most)
{
    if (payload.data[0] == TERN_MODE_ZERO) {
        return copy_payload(out, payload);
    }
    if (!is_sparse(payload)) {
        return TERN_ERR_UNKNOWN;
    }
    size_t listed = values_of(payload, count).len / VALUE_BYTES;
    if (listed > most) {
        return TERN_ERR_ARGUMENT;
    }
    // Leaves room for the longest possible length before the set; put_payload() moves the set into its place.
    size_t room = TERN_VARINT_MAX + 1;
    if (out->size - out->used < room + tern_index_set_bound(count)) {
        return TERN_ERR_NO_SPACE;
    }
    uint8_t *set = out->dst + out->used + room;
    uint8_t *end = payload.data[0] == TERN_MODE_SPARSE_GAPS
                       ? add_gaps(payload, count, listed, set)
                       : add_bitmap(payload, count, listed, set);
    return put_payload(out, TERN_MODE_SPARSE_INDICES, nothing,
                       (struct tern_bytes_left){set, (size_t)(end - set)});
}

enum tern_result tern_sparse_indices(const struct tern_model *model, const struct tern_codec *codec,
                                     const uint8_t *src, size_t len, uint8_t *dst, size_t dst_size,
                                     size_t *written)
{
    struct tern_bytes_left rest = {src, len};
    struct output out = {dst, dst_size, 0};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        uint32_t count = model->segments[i].count;
        struct tern_bytes_left payload;
        TERN_TRY(take_checked(&rest, count, &payload));
        TERN_TRY(tern_segment_is_coded(&model->segments[i])
                     ? put_indices(&out, payload, count, tern_select_count(codec->density, count))
                     : put_payload(&out, TERN_MODE_ZERO, nothing, nothing));
    }
    if (rest.len != 0) {
        return TERN_ERR_CORRUPT;
    }
    *written = out.used;
    return TERN_OK;
}

// --- Stripping and joining

enum tern_result tern_sparse_strip(const struct tern_model *model, const uint8_t *src, size_t len,
                                   uint8_t *dst, size_t dst_size, size_t *written)
{
    struct tern_bytes_left rest = {src, len};
    struct output out = {dst, dst_size, 0};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        uint32_t count = model->segments[i].count;
        struct tern_bytes_left payload;
        TERN_TRY(take_checked(&rest, count, &payload));
        TERN_TRY(is_sparse(payload) ? put_payload(&out, TERN_MODE_SPARSE_SHARED, nothing,
                                                  values_of(payload, count))
                                    : copy_payload(&out, payload));
    }
    if (rest.len != 0) {
        return TERN_ERR_CORRUPT;
    }
    *written = out.used;
    return TERN_OK;
}

size_t tern_sparse_join_bound(const struct tern_model *model, size_t indices_len, size_t len)
{
    return indices_len + len + TERN_VARINT_MAX * (size_t)model->segment_count;
}

// Appends the stripped payload with its segment's indices before its values.
static enum tern_result join_payload(struct output *out, struct tern_bytes_left indices,
                                     struct tern_bytes_left payload, size_t count)
{
    struct tern_index_set set;
    if (indices.len == 0 || indices.data[0] != TERN_MODE_SPARSE_INDICES ||
        !tern_index_set_open(indices.data + 1, indices.len - 1, 0, count, &set)) {
        return TERN_ERR_CORRUPT;
    }
    struct tern_bytes_left values = {payload.data + 1, payload.len - 1};
    if (values.len % VALUE_BYTES != 0 || values.len / VALUE_BYTES != set.members) {
        return TERN_ERR_CORRUPT;
    }
    return put_payload(out, TERN_MODE_SPARSE_GAPS,
                       (struct tern_bytes_left){indices.data + 1, indices.len - 1}, values);
}

enum tern_result tern_sparse_join(const struct tern_model *model, const uint8_t *indices,
                                  size_t indices_len, const uint8_t *src, size_t len, uint8_t *dst,
                                  size_t dst_size, size_t *written)
{
    struct tern_bytes_left rest = {src, len};
    struct tern_bytes_left left = {indices, indices_len};
    struct output out = {dst, dst_size, 0};
    for (uint32_t i = 0; i < model->segment_count; i++) {
        struct tern_bytes_left payload;
        struct tern_bytes_left segment;
        if (!tern_take_payload(&rest, &payload) || !tern_take_payload(&left, &segment)) {
            return TERN_ERR_CORRUPT;
        }
        bool stripped = payload.len > 0 && payload.data[0] == TERN_MODE_SPARSE_SHARED;
        TERN_TRY(stripped ? join_payload(&out, segment, payload, model->segments[i].count)
                          : copy_payload(&out, payload));
    }
    if (rest.len != 0 || left.len != 0) {
        return TERN_ERR_CORRUPT;
    }
    *written = out.used;
    return TERN_OK;
}
