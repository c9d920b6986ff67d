#include "wire/helper/messages.h"

#include "util/bytes.h"
#include "wire/check.h"
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

_Static_assert(tern_EpochKey_size <= TERN_HELPER_MESSAGE_MAX, "limit");
_Static_assert(tern_TicketRequest_size <= TERN_HELPER_MESSAGE_MAX, "limit");
_Static_assert(tern_TicketReply_size <= TERN_HELPER_MESSAGE_MAX, "limit");

// --- Encoding and decoding

static enum tern_result decode(const pb_msgdesc_t *fields, void *message, const uint8_t *src,
                               size_t src_len)
{
    pb_istream_t stream = pb_istream_from_buffer(src, src_len);
    TERN_TRY(tern_wire_scan(src, src_len, fields, message));
    return pb_decode(&stream, fields, message) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Borrows the bytes of a field. A stream made by pb_istream_from_buffer() keeps its position in `state`.
static bool borrow_span(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct tern_span *span = *arg;
    (void)field;
    span->data = stream->state;
    span->len = stream->bytes_left;
    return pb_read(stream, NULL, stream->bytes_left);
}

static pb_callback_t decodes(struct tern_span *span)
{
    *span = (struct tern_span){NULL, 0};
    return (pb_callback_t){.funcs.decode = borrow_span, .arg = span};
}

static bool write_span(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct tern_span *span = *arg;
    return pb_encode_tag_for_field(stream, field) &&
           pb_encode_string(stream, span->data, span->len);
}

static pb_callback_t encodes(struct tern_span *span)
{
    return (pb_callback_t){.funcs.encode = write_span, .arg = span};
}

// --- Checks

static enum tern_result check_epoch_key(const tern_EpochKey *message)
{
    if (message->public_key.size != TERN_X25519_PUBLIC_SIZE ||
        message->signature.size != TERN_P256_SIGNATURE_SIZE ||
        message->log_head.size != TERN_SHA256_SIZE ||
        message->log_signature.size != TERN_P256_SIGNATURE_SIZE) {
        return TERN_ERR_CORRUPT;
    }
    return message->epoch == 0 || message->log_count == 0 ? TERN_ERR_ARGUMENT : TERN_OK;
}

static enum tern_result check_ticket_request(const tern_TicketRequest *message)
{
    if (message->federation.size != TERN_SHA256_SIZE || message->ticket.size == 0) {
        return TERN_ERR_CORRUPT;
    }
    // Databases have signed 64-bit integers.
    const bool in_range = message->client > 0 && message->client <= INT64_MAX && message->epoch > 0;
    return in_range ? TERN_OK : TERN_ERR_ARGUMENT;
}

static enum tern_result check_ticket_reply(const tern_TicketReply *message)
{
    return message->sha256.size == TERN_SHA256_SIZE && message->log_head.size == TERN_SHA256_SIZE
               ? TERN_OK
               : TERN_ERR_CORRUPT;
}

static enum tern_result check_sum_request(const struct tern_sum_request *message)
{
    if (message->facts.len == 0 || message->members.len % TERN_HELPER_MEMBER_BYTES != 0) {
        return TERN_ERR_CORRUPT;
    }
    return message->values >= 1 && message->values <= TERN_HELPER_VALUES_MAX ? TERN_OK
                                                                             : TERN_ERR_ARGUMENT;
}

static enum tern_result check_sum_reply(const tern_SumReply *message)
{
    if (message->list_hash.size != TERN_SHA256_SIZE || message->log_head.size != TERN_SHA256_SIZE ||
        message->signature.size != TERN_P256_SIGNATURE_SIZE ||
        message->log_signature.size != TERN_P256_SIGNATURE_SIZE) {
        return TERN_ERR_CORRUPT;
    }
    return message->log_count == 0 ? TERN_ERR_ARGUMENT : TERN_OK;
}

// --- Messages

#define DEFINE(name, type)                                                                         \
    enum tern_result tern_wire_encode_##name(const type *message, uint8_t *dst, size_t dst_size,   \
                                             size_t *written)                                      \
    {                                                                                              \
        TERN_TRY(check_##name(message));                                                           \
        return tern_wire_encode(type##_fields, message, dst, dst_size, written);                   \
    }                                                                                              \
    enum tern_result tern_wire_decode_##name(const uint8_t *src, size_t src_len, type *message)    \
    {                                                                                              \
        TERN_TRY(decode(type##_fields, message, src, src_len));                                    \
        return check_##name(message);                                                              \
    }

DEFINE(epoch_key, tern_EpochKey)
DEFINE(ticket_request, tern_TicketRequest)
DEFINE(ticket_reply, tern_TicketReply)

size_t tern_sum_request_bound(size_t facts_len, size_t members_len)
{
    const size_t tag_and_varint = 1 + TERN_VARINT_MAX;
    return facts_len + members_len + 3 * tag_and_varint;
}

enum tern_result tern_wire_encode_sum_request(const struct tern_sum_request *message, uint8_t *dst,
                                              size_t dst_size, size_t *written)
{
    struct tern_span facts = message->facts;
    struct tern_span members = message->members;
    const tern_SumRequest fields = {
        .facts = encodes(&facts), .values = message->values, .members = encodes(&members)};
    TERN_TRY(check_sum_request(message));
    return tern_wire_encode(tern_SumRequest_fields, &fields, dst, dst_size, written);
}

enum tern_result tern_wire_decode_sum_request(const uint8_t *src, size_t src_len,
                                              struct tern_sum_request *message)
{
    tern_SumRequest fields = {.facts = decodes(&message->facts),
                              .members = decodes(&message->members)};
    TERN_TRY(decode(tern_SumRequest_fields, &fields, src, src_len));
    message->values = fields.values;
    return check_sum_request(message);
}

enum tern_result tern_wire_encode_sum_reply(const tern_SumReply *message, struct tern_span sum,
                                            uint8_t *dst, size_t dst_size, size_t *written)
{
    tern_SumReply fields = *message;
    fields.sum = encodes(&sum);
    TERN_TRY(check_sum_reply(message));
    return tern_wire_encode(tern_SumReply_fields, &fields, dst, dst_size, written);
}

enum tern_result tern_wire_decode_sum_reply(const uint8_t *src, size_t src_len,
                                            tern_SumReply *message, struct tern_span *sum)
{
    *message = (tern_SumReply){.sum = decodes(sum)};
    TERN_TRY(decode(tern_SumReply_fields, message, src, src_len));
    return check_sum_reply(message);
}

void tern_member_put(const struct tern_secure_member *member, uint8_t dst[TERN_HELPER_MEMBER_BYTES])
{
    tern_put_le64(dst, member->client);
    tern_put_le64(dst + 8, member->nonce);
    memcpy(dst + 16, member->ticket, TERN_SHA256_SIZE);
}

void tern_member_get(const uint8_t src[TERN_HELPER_MEMBER_BYTES], struct tern_secure_member *member)
{
    member->client = tern_get_le64(src);
    member->nonce = tern_get_le64(src + 8);
    memcpy(member->ticket, src + 16, TERN_SHA256_SIZE);
}
