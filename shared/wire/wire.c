#include "wire/wire.h"

#include "util/text.h"
#include "wire/check.h"
#include <pb_common.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

// --- Checking the structure of an untrusted message

// nanopb accepts repeated fields and malformed text without an error, so this code checks the bytes
// before nanopb decodes them into a struct.

struct scan {
    struct tern_span *container;
};

static bool scan_message(struct scan *scan, pb_istream_t *stream, const pb_msgdesc_t *fields,
                         void *message);

// Reads a length-delimited field. A stream made by pb_istream_from_buffer() keeps its position in
// `state`, which allows borrowing the bytes without a copy.
static bool take_span(pb_istream_t *stream, struct tern_span *span)
{
    uint32_t len;
    if (!pb_decode_varint32(stream, &len) || len > stream->bytes_left) {
        return false;
    }
    span->data = stream->state;
    span->len = len;
    return pb_read(stream, NULL, len);
}

// Checks the contents of a known field. The recursion depth is limited by the schema, in which
// messages nest at most three deep, and not by the input.
static bool scan_known(struct scan *scan, pb_istream_t *stream, pb_wire_type_t wire_type,
                       const pb_field_iter_t *field)
{
    bool is_callback = PB_ATYPE(field->type) == PB_ATYPE_CALLBACK;
    bool is_text = PB_LTYPE(field->type) == PB_LTYPE_STRING;
    if (!is_callback && !is_text && !PB_LTYPE_IS_SUBMSG(field->type)) {
        return pb_skip_field(stream, wire_type);
    }
    struct tern_span span;
    if (wire_type != PB_WT_STRING || !take_span(stream, &span)) {
        return false;
    }
    if (is_callback) {
        *scan->container = span;
        return true;
    }
    if (is_text) {
        return tern_utf8_is_text((const char *)span.data, span.len);
    }
    pb_istream_t inner = pb_istream_from_buffer(span.data, span.len);
    return scan_message(scan, &inner, field->submsg_desc, field->pData);
}

// Records a field; returns false if it may occur once and was recorded before. Tags of known fields
// are below 32 (tern.proto).
static bool note_once(uint32_t *seen, const pb_field_iter_t *field)
{
    uint32_t bit = UINT32_C(1) << field->tag;
    if (PB_HTYPE(field->type) == PB_HTYPE_REPEATED) {
        return true;
    }
    bool first = (*seen & bit) == 0;
    *seen |= bit;
    return first;
}

static bool scan_field(struct scan *scan, pb_istream_t *stream, pb_field_iter_t *iter,
                       uint32_t *seen)
{
    pb_wire_type_t wire_type;
    uint32_t tag;
    bool eof;
    if (!pb_decode_tag(stream, &wire_type, &tag, &eof) || tag == 0) {
        return false;
    }
    if (!pb_field_iter_find(iter, tag)) {
        return pb_skip_field(stream, wire_type);
    }
    return note_once(seen, iter) && scan_known(scan, stream, wire_type, iter);
}

static bool scan_message(struct scan *scan, pb_istream_t *stream, const pb_msgdesc_t *fields,
                         void *message)
{
    pb_field_iter_t iter;
    uint32_t seen = 0;
    if (!pb_field_iter_begin(&iter, fields, message)) {
        return stream->bytes_left == 0;
    }
    while (stream->bytes_left > 0) {
        if (!scan_field(scan, stream, &iter, &seen)) {
            return false;
        }
    }
    return true;
}

// Walks the message src[0..src_len) and the messages inside it. Skips fields that `fields` does not
// name. `message` is the struct that `fields` describes; its values are neither read nor written.
// *container: the container field, which the struct does not hold, borrowed from src; its data is
// NULL if the field is absent. NULL is allowed for messages without a container.
// TERN_ERR_CORRUPT  not protobuf, a field that may occur once occurs twice, or text that is not UTF-8 or has a control
//                   character (NUL included)
static enum tern_result scan_all(const uint8_t *src, size_t src_len, const pb_msgdesc_t *fields,
                                 void *message, struct tern_span *container)
{
    struct tern_span none = {NULL, 0};
    struct scan scan = {container == NULL ? &none : container};
    *scan.container = none;
    pb_istream_t stream = pb_istream_from_buffer(src, src_len);
    return scan_message(&scan, &stream, fields, message) ? TERN_OK : TERN_ERR_CORRUPT;
}

enum tern_result tern_wire_scan(const uint8_t *src, size_t src_len, const pb_msgdesc_t *fields,
                                void *message)
{
    return scan_all(src, src_len, fields, message, NULL);
}

// --- Encoding and decoding

_Static_assert(tern_EnrollRequest_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(tern_EnrollReply_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(tern_CheckinRequest_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(tern_Task_size + tern_HelperKey_size + tern_Settlement_size + 64 <=
                   TERN_WIRE_MESSAGE_MAX,
               "limit of a task and the fields around it");
_Static_assert(tern_Error_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(sizeof((tern_Task *)NULL)->downloads ==
                   TERN_WIRE_DOWNLOADS_MAX * sizeof(tern_DownloadRef),
               "cmake/TernWire.cmake has another value");
_Static_assert(TERN_WIRE_DOWNLOADS_MAX >= 1 && TERN_WIRE_DOWNLOADS_MAX <= TERN_WIRE_DOWNLOADS_LIMIT,
               "limit");

enum tern_result tern_wire_encode(const pb_msgdesc_t *fields, const void *message, uint8_t *dst,
                                  size_t dst_size, size_t *written)
{
    pb_ostream_t stream = pb_ostream_from_buffer(dst, dst_size);
    if (!pb_encode(&stream, fields, message)) {
        return TERN_ERR_NO_SPACE;
    }
    *written = stream.bytes_written;
    return TERN_OK;
}

// The container field has no storage in the struct. It is written after all other fields, under the
// same tag in every message.
static enum tern_result encode_container(struct tern_span container, uint8_t *dst, size_t dst_size,
                                         size_t *written)
{
    pb_ostream_t stream = pb_ostream_from_buffer(dst + *written, dst_size - *written);
    if (!pb_encode_tag(&stream, PB_WT_STRING, tern_Update_container_tag) ||
        !pb_encode_string(&stream, container.data, container.len)) {
        return TERN_ERR_NO_SPACE;
    }
    *written += stream.bytes_written;
    return TERN_OK;
}

_Static_assert(tern_Update_container_tag == tern_Download_container_tag, "one tag for containers");
_Static_assert(tern_Update_container_tag == tern_CheckinReply_downloads_tag, "and for downloads");

static enum tern_result check_container(struct tern_span container)
{
    return container.data != NULL && container.len > 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result decode(const uint8_t *src, size_t src_len, const pb_msgdesc_t *fields,
                               void *message, struct tern_span *container)
{
    TERN_TRY(scan_all(src, src_len, fields, message, container));
    pb_istream_t stream = pb_istream_from_buffer(src, src_len);
    return pb_decode(&stream, fields, message) ? TERN_OK : TERN_ERR_CORRUPT;
}

// A small build does not check messages before sending; the aggregator refuses invalid ones.
#define CHECK_OWN(check) (TERN_SMALL ? TERN_OK : (check))

#define DEFINE_MESSAGE(name, type)                                                                 \
    enum tern_result tern_wire_encode_##name(const type *message, uint8_t *dst, size_t dst_size,   \
                                             size_t *written)                                      \
    {                                                                                              \
        TERN_TRY(CHECK_OWN(tern_check_##name(message)));                                           \
        return tern_wire_encode(type##_fields, message, dst, dst_size, written);                   \
    }                                                                                              \
    enum tern_result tern_wire_decode_##name(const uint8_t *src, size_t src_len, type *message)    \
    {                                                                                              \
        if (src_len > TERN_WIRE_MESSAGE_MAX) {                                                     \
            return TERN_ERR_TOO_LARGE;                                                             \
        }                                                                                          \
        memset(message, 0, sizeof(*message));                                                      \
        TERN_TRY(decode(src, src_len, type##_fields, message, NULL));                              \
        return tern_check_##name(message);                                                         \
    }

DEFINE_MESSAGE(enroll_request, tern_EnrollRequest)
DEFINE_MESSAGE(enroll_reply, tern_EnrollReply)
DEFINE_MESSAGE(checkin_request, tern_CheckinRequest)
DEFINE_MESSAGE(update_reply, tern_UpdateReply)
DEFINE_MESSAGE(error, tern_Error)

// Clears the struct's callback member before nanopb uses it, so callers may leave it unset.
#define DEFINE_CARRIER(name, type)                                                                 \
    enum tern_result tern_wire_encode_##name(const type *message, struct tern_span container,      \
                                             uint8_t *dst, size_t dst_size, size_t *written)       \
    {                                                                                              \
        type copy = *message;                                                                      \
        memset(&copy.container, 0, sizeof(copy.container));                                        \
        TERN_TRY(tern_check_##name(message));                                                      \
        TERN_TRY(check_container(container));                                                      \
        TERN_TRY(tern_wire_encode(type##_fields, &copy, dst, dst_size, written));                  \
        return encode_container(container, dst, dst_size, written);                                \
    }                                                                                              \
    enum tern_result tern_wire_decode_##name(const uint8_t *src, size_t src_len, type *message,    \
                                             struct tern_span *container)                          \
    {                                                                                              \
        memset(message, 0, sizeof(*message));                                                      \
        TERN_TRY(decode(src, src_len, type##_fields, message, container));                         \
        TERN_TRY(tern_check_##name(message));                                                      \
        return check_container(*container);                                                        \
    }

DEFINE_CARRIER(update, tern_Update)
DEFINE_CARRIER(download, tern_Download)

_Static_assert(tern_Update_container_tag == tern_Statistics_columns_tag, "and for columns");
_Static_assert(tern_Update_container_tag == tern_Scaling_columns_tag, "and for columns");

#define DEFINE_COLUMNS(name, type)                                                                 \
    enum tern_result tern_wire_encode_##name(const type *message, struct tern_span columns,        \
                                             uint8_t *dst, size_t dst_size, size_t *written)       \
    {                                                                                              \
        type copy = *message;                                                                      \
        memset(&copy.columns, 0, sizeof(copy.columns));                                            \
        TERN_TRY(tern_check_##name(message, columns));                                             \
        TERN_TRY(tern_wire_encode(type##_fields, &copy, dst, dst_size, written));                  \
        return encode_container(columns, dst, dst_size, written);                                  \
    }                                                                                              \
    enum tern_result tern_wire_decode_##name(const uint8_t *src, size_t src_len, type *message,    \
                                             struct tern_span *columns)                            \
    {                                                                                              \
        memset(message, 0, sizeof(*message));                                                      \
        TERN_TRY(decode(src, src_len, type##_fields, message, columns));                           \
        return tern_check_##name(message, *columns);                                               \
    }

DEFINE_COLUMNS(statistics, tern_Statistics)
DEFINE_COLUMNS(scaling, tern_Scaling)

// Writes a message without the bytes of its container, which the caller appends.
#define DEFINE_BEGIN(name, type)                                                                   \
    enum tern_result tern_wire_begin_##name(const type *message, size_t container_len,             \
                                            uint8_t *dst, size_t dst_size, size_t *written)        \
    {                                                                                              \
        type copy = *message;                                                                      \
        memset(&copy.container, 0, sizeof(copy.container));                                        \
        TERN_TRY(tern_check_##name(message));                                                      \
        TERN_TRY(tern_wire_encode(type##_fields, &copy, dst, dst_size, written));                  \
        pb_ostream_t stream = pb_ostream_from_buffer(dst + *written, dst_size - *written);         \
        if (!pb_encode_tag(&stream, PB_WT_STRING, type##_container_tag) ||                         \
            !pb_encode_varint(&stream, container_len)) {                                           \
            return TERN_ERR_NO_SPACE;                                                              \
        }                                                                                          \
        *written += stream.bytes_written;                                                          \
        return TERN_OK;                                                                            \
    }

DEFINE_BEGIN(update, tern_Update)
DEFINE_BEGIN(download, tern_Download)

enum tern_result tern_wire_encode_checkin_reply(const tern_CheckinReply *message,
                                                struct tern_span downloads, uint8_t *dst,
                                                size_t dst_size, size_t *written)
{
    tern_CheckinReply copy = *message;
    memset(&copy.downloads, 0, sizeof(copy.downloads));
    TERN_TRY(tern_check_checkin_reply(message, downloads.len));
    TERN_TRY(tern_wire_encode(tern_CheckinReply_fields, &copy, dst, dst_size, written));
    return downloads.len > 0 ? encode_container(downloads, dst, dst_size, written) : TERN_OK;
}

enum tern_result tern_wire_decode_checkin_reply(const uint8_t *src, size_t src_len,
                                                tern_CheckinReply *message,
                                                struct tern_span *downloads)
{
    memset(message, 0, sizeof(*message));
    TERN_TRY(decode(src, src_len, tern_CheckinReply_fields, message, downloads));
    return tern_check_checkin_reply(message, downloads->len);
}
