// Checks the ranges of each message's fields. Encoder and decoder call the same function, so that
// no message can be sent that the receiver refuses. Internal to shared/wire; pure; reentrant.
//
// TERN_ERR_CORRUPT     a hash of the wrong length, malformed text, a required field is missing
// TERN_ERR_NON_FINITE  a float field is NaN or infinite
// TERN_ERR_ARGUMENT    a value outside its documented range
#ifndef TERN_WIRE_CHECK_H
#define TERN_WIRE_CHECK_H

#include "result.h"
#include "wire/wire.h"

// Checks the structure of an untrusted message before nanopb decodes it. message: the struct that `fields` describes, whose
// values are neither read nor written.
// TERN_ERR_CORRUPT  not protobuf, a field that may occur once occurs twice, or malformed text
TERN_MUST_USE enum tern_result tern_wire_scan(const uint8_t *src, size_t src_len,
                                              const pb_msgdesc_t *fields, void *message);

// Encodes the fields of a struct, without checks. TERN_ERR_NO_SPACE: dst is too small
TERN_MUST_USE enum tern_result tern_wire_encode(const pb_msgdesc_t *fields, const void *message,
                                                uint8_t *dst, size_t dst_size, size_t *written);

TERN_MUST_USE enum tern_result tern_check_enroll_request(const tern_EnrollRequest *message);
TERN_MUST_USE enum tern_result tern_check_enroll_reply(const tern_EnrollReply *message);
TERN_MUST_USE enum tern_result tern_check_checkin_request(const tern_CheckinRequest *message);
// inline_len: bytes of the downloads in the reply; 0: the reply has none
TERN_MUST_USE enum tern_result tern_check_checkin_reply(const tern_CheckinReply *message,
                                                        size_t inline_len);
TERN_MUST_USE enum tern_result tern_check_update(const tern_Update *message);
TERN_MUST_USE enum tern_result tern_check_update_reply(const tern_UpdateReply *message);
TERN_MUST_USE enum tern_result tern_check_download(const tern_Download *message);
TERN_MUST_USE enum tern_result tern_check_statistics(const tern_Statistics *message,
                                                     struct tern_span columns);
TERN_MUST_USE enum tern_result tern_check_scaling(const tern_Scaling *message,
                                                  struct tern_span columns);
TERN_MUST_USE enum tern_result tern_check_error(const tern_Error *message);

#endif
