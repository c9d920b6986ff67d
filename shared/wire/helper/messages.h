// Messages between an aggregator and tern-helper (wire/helper.proto) as C structs, to and from bytes. The helper and the
// aggregator's link to it call these functions. Pure; the caller owns all memory; reentrant.
//
// Every decoder takes untrusted bytes and consumes them exactly. TERN_ERR_CORRUPT: the bytes are not protobuf, a field is
// longer than its limit, or a field has the wrong length. TERN_ERR_ARGUMENT: a number is outside its range. On error the
// struct is unspecified. Unknown fields are skipped. Every encoder returns TERN_ERR_NO_SPACE if dst is too small, and the
// errors of its decoder.
#ifndef TERN_WIRE_HELPER_MESSAGES_H
#define TERN_WIRE_HELPER_MESSAGES_H

#include "result.h"
#include "secure/round.h"
#include "wire/helper.pb.h"
#include "wire/wire.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_PATH_EPOCH "/v1/epoch/" // followed by the base64url text of the federation's id
#define TERN_PATH_TICKETS "/v1/tickets"
#define TERN_PATH_SUMS "/v1/sums"

#define TERN_HELPER_MESSAGE_MAX 320      // bytes of each message without facts, members or sum
#define TERN_HELPER_VALUES_MAX 100000000 // masked values of one update
#define TERN_HELPER_MEMBER_BYTES 48      // bytes of one client in SumRequest.members

TERN_WIRE_DECLARE(epoch_key, tern_EpochKey);
TERN_WIRE_DECLARE(ticket_request, tern_TicketRequest);
TERN_WIRE_DECLARE(ticket_reply, tern_TicketReply);

// A SumRequest. facts: canonical bytes (tern_secure_round_encode()). members: packed by tern_member_put(). Both are
// borrowed from the caller (encode) or from the input (decode).
struct tern_sum_request {
    struct tern_span facts;
    uint32_t values; // 1 to TERN_HELPER_VALUES_MAX
    struct tern_span members;
};

TERN_WIRE_DECLARE(sum_request, struct tern_sum_request);
// Returns the size limit of an encoded SumRequest in bytes.
size_t tern_sum_request_bound(size_t facts_len, size_t members_len);

// A SumReply. sum: borrowed as above.
TERN_MUST_USE enum tern_result tern_wire_encode_sum_reply(const tern_SumReply *message,
                                                          struct tern_span sum, uint8_t *dst,
                                                          size_t dst_size, size_t *written);
TERN_MUST_USE enum tern_result tern_wire_decode_sum_reply(const uint8_t *src, size_t src_len,
                                                          tern_SumReply *message,
                                                          struct tern_span *sum);

// Write and read one client of SumRequest.members: client and nonce as 8 bytes each, little-endian, and the
// SHA-256 of the ticket.
void tern_member_put(const struct tern_secure_member *member,
                     uint8_t dst[TERN_HELPER_MEMBER_BYTES]);
void tern_member_get(const uint8_t src[TERN_HELPER_MEMBER_BYTES],
                     struct tern_secure_member *member);

#ifdef __cplusplus
}
#endif

#endif
