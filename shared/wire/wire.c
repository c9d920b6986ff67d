#include "wire/wire.h"
#include "wire/check.h"
#include "wire/scan.h"
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

// What the encoders can make, the decoders take.
_Static_assert(tern_EnrollRequest_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(tern_EnrollReply_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(tern_CheckinRequest_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(tern_Task_size + 64 <= TERN_WIRE_MESSAGE_MAX,
               "limit of a task and what is around it");
_Static_assert(tern_Error_size <= TERN_WIRE_MESSAGE_MAX, "limit");
_Static_assert(sizeof((tern_Task *)NULL)->downloads ==
                   TERN_WIRE_DOWNLOADS_MAX * sizeof(tern_DownloadRef),
               "cmake/TernWire.cmake was told otherwise");
_Static_assert(TERN_WIRE_DOWNLOADS_MAX >= 1 && TERN_WIRE_DOWNLOADS_MAX <= TERN_WIRE_DOWNLOADS_LIMIT,
               "limit");

static enum tern_result encode(const pb_msgdesc_t *fields, const void *message, uint8_t *dst,
                               size_t dst_size, size_t *written)
{
    pb_ostream_t stream = pb_ostream_from_buffer(dst, dst_size);
    if (!pb_encode(&stream, fields, message)) {
        return TERN_ERR_NO_SPACE;
    }
    *written = stream.bytes_written;
    return TERN_OK;
}

// Fields that carry bytes have no storage in the struct; they are written behind all others, under
// the same tag in every message.
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
    TERN_TRY(tern_wire_scan(src, src_len, fields, message, container));
    pb_istream_t stream = pb_istream_from_buffer(src, src_len);
    return pb_decode(&stream, fields, message) ? TERN_OK : TERN_ERR_CORRUPT;
}

// A small device leaves it to the other end to refuse what it must not send.
#define CHECK_OWN(check) (TERN_SMALL ? TERN_OK : (check))

#define DEFINE_MESSAGE(name, type)                                                                 \
    enum tern_result tern_wire_encode_##name(const type *message, uint8_t *dst, size_t dst_size,   \
                                             size_t *written)                                      \
    {                                                                                              \
        TERN_TRY(CHECK_OWN(tern_check_##name(message)));                                           \
        return encode(type##_fields, message, dst, dst_size, written);                             \
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

// The struct's callback member is cleared before nanopb sees it, so callers may leave it unset.
#define DEFINE_CARRIER(name, type)                                                                 \
    enum tern_result tern_wire_encode_##name(const type *message, struct tern_span container,      \
                                             uint8_t *dst, size_t dst_size, size_t *written)       \
    {                                                                                              \
        type copy = *message;                                                                      \
        memset(&copy.container, 0, sizeof(copy.container));                                        \
        TERN_TRY(tern_check_##name(message));                                                      \
        TERN_TRY(check_container(container));                                                      \
        TERN_TRY(encode(type##_fields, &copy, dst, dst_size, written));                            \
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
        TERN_TRY(encode(type##_fields, &copy, dst, dst_size, written));                            \
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

// All of a message but its container.
#define DEFINE_BEGIN(name, type)                                                                   \
    enum tern_result tern_wire_begin_##name(const type *message, size_t container_len,             \
                                            uint8_t *dst, size_t dst_size, size_t *written)        \
    {                                                                                              \
        type copy = *message;                                                                      \
        memset(&copy.container, 0, sizeof(copy.container));                                        \
        TERN_TRY(tern_check_##name(message));                                                      \
        TERN_TRY(encode(type##_fields, &copy, dst, dst_size, written));                            \
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
    TERN_TRY(encode(tern_CheckinReply_fields, &copy, dst, dst_size, written));
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
