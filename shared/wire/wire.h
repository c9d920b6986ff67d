// Messages of protocol v1 as C structs, to and from bytes. The structs are nanopb's (tern.pb.h,
// from tern.proto); the functions also check all limits and ranges that the types do not express,
// so that a decoded message is safe to use. Pure; the caller owns all memory; reentrant.
//
// Every decoder takes untrusted bytes, consumes them exactly, and returns
//   TERN_ERR_CORRUPT     not protobuf, a field over its limit or given twice, a hash of the wrong
//                        length, text that is not UTF-8 or holds a control character, a required
//                        field missing
//   TERN_ERR_NON_FINITE  a float field is NaN or infinite
//   TERN_ERR_ARGUMENT    a value outside its documented range (docs/PROTOCOL.md)
//   TERN_ERR_TOO_LARGE   more than TERN_WIRE_MESSAGE_MAX bytes (not update, download and the reply
//                        to a check-in, whose size the caller limits)
// On error the struct is unspecified. Unknown fields are skipped, since later versions may add
// some. Every encoder returns TERN_ERR_NO_SPACE when dst is too small, and the same range errors,
// so that neither side can send a message that the other must refuse. Task.codec is only checked to
// be text: the caller parses it (tern_codec_parse()).
#ifndef TERN_WIRE_WIRE_H
#define TERN_WIRE_WIRE_H

#include "build.h"
#include "result.h"
#include "util/sha256.h"
#include "wire/tern.pb.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that are borrowed from the caller (encode) or from the input (decode).
struct tern_span {
    const uint8_t *data;
    size_t len;
};

#define TERN_WIRE_DECLARE(name, type)                                                              \
    TERN_MUST_USE enum tern_result tern_wire_encode_##name(const type *message, uint8_t *dst,      \
                                                           size_t dst_size, size_t *written);      \
    TERN_MUST_USE enum tern_result tern_wire_decode_##name(const uint8_t *src, size_t src_len,     \
                                                           type *message)

TERN_WIRE_DECLARE(enroll_request, tern_EnrollRequest);
TERN_WIRE_DECLARE(enroll_reply, tern_EnrollReply);
TERN_WIRE_DECLARE(checkin_request, tern_CheckinRequest);
TERN_WIRE_DECLARE(update_reply, tern_UpdateReply);
TERN_WIRE_DECLARE(error, tern_Error);

// Update and Download carry a container, which is borrowed and never copied into the struct.
TERN_MUST_USE enum tern_result tern_wire_encode_update(const tern_Update *message,
                                                       struct tern_span container, uint8_t *dst,
                                                       size_t dst_size, size_t *written);
TERN_MUST_USE enum tern_result tern_wire_decode_update(const uint8_t *src, size_t src_len,
                                                       tern_Update *message,
                                                       struct tern_span *container);
TERN_MUST_USE enum tern_result tern_wire_encode_download(const tern_Download *message,
                                                         struct tern_span container, uint8_t *dst,
                                                         size_t dst_size, size_t *written);
// Encode a message without its container; the caller appends container_len bytes.
TERN_MUST_USE enum tern_result tern_wire_begin_update(const tern_Update *message,
                                                      size_t container_len, uint8_t *dst,
                                                      size_t dst_size, size_t *written);
TERN_MUST_USE enum tern_result tern_wire_begin_download(const tern_Download *message,
                                                        size_t container_len, uint8_t *dst,
                                                        size_t dst_size, size_t *written);
TERN_MUST_USE enum tern_result tern_wire_decode_download(const uint8_t *src, size_t src_len,
                                                         tern_Download *message,
                                                         struct tern_span *container);

// Statistics and Scaling contain columns, which are borrowed, too: two float32 for each column. The
// second one is at least 0, and above 0 in a Scaling. columns may not overlap dst.
TERN_MUST_USE enum tern_result tern_wire_encode_statistics(const tern_Statistics *message,
                                                           struct tern_span columns, uint8_t *dst,
                                                           size_t dst_size, size_t *written);
TERN_MUST_USE enum tern_result tern_wire_decode_statistics(const uint8_t *src, size_t src_len,
                                                           tern_Statistics *message,
                                                           struct tern_span *columns);
TERN_MUST_USE enum tern_result tern_wire_encode_scaling(const tern_Scaling *message,
                                                        struct tern_span columns, uint8_t *dst,
                                                        size_t dst_size, size_t *written);
TERN_MUST_USE enum tern_result tern_wire_decode_scaling(const uint8_t *src, size_t src_len,
                                                        tern_Scaling *message,
                                                        struct tern_span *columns);

// Returns the tag of a scaling: the first 4 bytes of its name, little-endian; 1 if they are 0,
// since 0 means no scaling.
uint32_t tern_scaling_tag(const uint8_t sha256[TERN_SHA256_SIZE]);

// Returns the tag of the column names. names: `len` bytes, each name followed by a NUL, in the
// order of the columns. 0: no names.
uint32_t tern_column_names_tag(const char *names, size_t len);

// The two values of a column in Statistics and Scaling; functions to read and write them.
struct tern_column_pair {
    float mean;
    float spread; // variance of Statistics, deviation of a Scaling
};
struct tern_column_pair tern_column_get(struct tern_span columns, uint32_t column);
void tern_column_put(uint8_t *columns, uint32_t column, struct tern_column_pair pair);

// The reply to a check-in may contain the downloads of its task, one after the other; they are
// borrowed. downloads: empty if there are none.
TERN_MUST_USE enum tern_result tern_wire_encode_checkin_reply(const tern_CheckinReply *message,
                                                              struct tern_span downloads,
                                                              uint8_t *dst, size_t dst_size,
                                                              size_t *written);
TERN_MUST_USE enum tern_result tern_wire_decode_checkin_reply(const uint8_t *src, size_t src_len,
                                                              tern_CheckinReply *message,
                                                              struct tern_span *downloads);

// Size limit of an update or download without its container, in bytes.
#define TERN_WIRE_OVERHEAD 256

// Size limit of all other messages, in bytes; a small build may lower it (build.h).
#ifndef TERN_WIRE_MESSAGE_MAX
#define TERN_WIRE_MESSAGE_MAX 4096
#endif

// Bits of CheckinRequest.abilities.
#define TERN_WIRE_STEPS_AHEAD 1u // ERROR_STEP_AHEAD is supported
#define TERN_WIRE_REDUCES 2u     // tasks with any Gradient are supported
#define TERN_WIRE_LEAVES                                                                           \
    4u // the client leaves after its round, and takes no task before its next check-in
#define TERN_WIRE_PASSES_RESETS                                                                    \
    8u // a gateway: it passes a reset on to its devices, and gets it with an empty buffer, too

// Limits on fields.
#define TERN_WIRE_TOKEN_BYTES 16     // bytes of a bearer token, 22 characters of base64url
#define TERN_WIRE_REPLICA_BYTES 8    // bytes of a replica's id that a message contains
#define TERN_WIRE_DOWNLOADS_LIMIT 64 // downloads in one task, by the protocol
#ifndef TERN_WIRE_DOWNLOADS_MAX
#define TERN_WIRE_DOWNLOADS_MAX 64 // downloads in one task that this build accepts
#endif
#define TERN_WIRE_LOCAL_STEPS_MAX 1000000u
#define TERN_WIRE_BATCH_SIZE_MAX 65536u
#define TERN_WIRE_WAIT_MS_MAX 3600000u             // longest wait of a check-in
#define TERN_WIRE_COLUMNS_MAX 65536u               // columns in Statistics and Scaling
#define TERN_WIRE_COLUMN_BYTES 8                   // bytes of a column in Statistics and Scaling
#define TERN_WIRE_DEVIATION_MIN 0x1p-126f          // smallest normal float32
#define TERN_WIRE_MASKED_BITS_MAX 24               // bits of a value in a masked update
#define TERN_WIRE_MASKED_LEVEL_MAX 127             // SecureRound.level
#define TERN_WIRE_SIGNATURE_BYTES 64               // of P-256: r and s
#define TERN_WIRE_BUDGET_MAX ((uint64_t)INT64_MAX) // bytes; the largest integer of an SQL database

// --- Replica ids (docs/FORMAT.md)

// Returns the id of the replica with the initial weights of a seed: SHA-256("tern replica seed" ||
// model hash || seed as 8 bytes little-endian).
void tern_replica_from_seed(const uint8_t model_hash[TERN_SHA256_SIZE], uint64_t seed,
                            uint8_t id[TERN_SHA256_SIZE]);

// Returns the id of version 0's replica if its weights came with the model: SHA-256("tern replica
// weights" || model hash || SHA-256 of the weights as little-endian float32 in layout order).
void tern_replica_from_weights(const uint8_t model_hash[TERN_SHA256_SIZE],
                               const uint8_t weights_sha256[TERN_SHA256_SIZE],
                               uint8_t id[TERN_SHA256_SIZE]);

// Returns the id of the replica that a snapshot creates, from the snapshot's container:
// SHA-256("tern replica snapshot" || model hash || version as 4 bytes little-endian || SHA-256 of
// the container).
void tern_replica_from_snapshot(const uint8_t model_hash[TERN_SHA256_SIZE], uint32_t version,
                                const uint8_t container_sha256[TERN_SHA256_SIZE],
                                uint8_t id[TERN_SHA256_SIZE]);

// Returns the id of the replica after a delta is applied: SHA-256("tern replica step" || from ||
// sha256 of the blob). id may alias from.
void tern_replica_step(const uint8_t from[TERN_SHA256_SIZE],
                       const uint8_t download_sha256[TERN_SHA256_SIZE],
                       uint8_t id[TERN_SHA256_SIZE]);

// --- Paths

#define TERN_PATH_MAX 80 // bytes with the terminating NUL
#define TERN_PATH_ENROLL "/v1/enroll"
#define TERN_PATH_CHECKIN "/v1/checkin"
#define TERN_PATH_DOWNLOADS "/v1/downloads/"
#define TERN_PATH_UPDATES "/v1/updates/"
#define TERN_PATH_STATISTICS "/v1/statistics"

void tern_path_download(const uint8_t sha256[TERN_SHA256_SIZE], char path[TERN_PATH_MAX]);
void tern_path_update(uint32_t round, uint32_t sequence, char path[TERN_PATH_MAX]);

// Parses a path made by the functions above. TERN_ERR_NOT_FOUND for any other path.
TERN_MUST_USE enum tern_result tern_path_parse_download(const char *path,
                                                        uint8_t sha256[TERN_SHA256_SIZE]);
TERN_MUST_USE enum tern_result tern_path_parse_update(const char *path, uint32_t *round,
                                                      uint32_t *sequence);

// --- Pre-shared keys

#define TERN_PSK_SIZE TERN_SHA256_SIZE

// Derives the pre-shared key of a client without certificates (PROTOCOL.md, "Clients with a pre-shared key"), on the
// device and in the aggregator: SHA-256("tern psk v1" || token). token: the bearer token as NUL-terminated text.
void tern_psk_from_token(const char *token, uint8_t psk[TERN_PSK_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
