// Byte counters by purpose, layer and direction, and estimates of what requests will cost. The client's transport and
// the aggregator's listener add to a meter; reports read it. Plain data without locks: one thread owns a meter.
//
// Each layer includes the one before it:
//   payload  compressed tensor bytes: the container inside an update or a download
//   http     request and response lines, headers and bodies, before encryption
//   tls      the TCP stream: TLS records, handshakes and alerts included
//   wire     tls plus retransmitted bytes plus IP and TCP headers of every segment, pure
//            acknowledgements included; no link-layer framing
#ifndef TERN_METER_H
#define TERN_METER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Device records and the aggregator's database store these numbers, from 0: add new purposes at the end.
#define TERN_PURPOSE_LIST(X)                                                                       \
    X(TERN_PURPOSE_HANDSHAKE, "handshake")                                                         \
    X(TERN_PURPOSE_ENROLL, "enroll")                                                               \
    X(TERN_PURPOSE_CHECKIN, "checkin")                                                             \
    X(TERN_PURPOSE_DOWNLOAD, "download")                                                           \
    X(TERN_PURPOSE_UPLOAD, "upload")

enum tern_purpose {
#define TERN_PURPOSE_ENUM(symbol, name) symbol,
    TERN_PURPOSE_LIST(TERN_PURPOSE_ENUM)
#undef TERN_PURPOSE_ENUM
        TERN_PURPOSE_COUNT
};

// "up" is from the client to the aggregator, on both ends.
enum tern_direction { TERN_UP = 0, TERN_DOWN = 1, TERN_DIRECTION_COUNT };

struct tern_bytes {
    uint64_t payload;
    uint64_t http;
    uint64_t tls;
    uint64_t wire;
};

struct tern_meter {
    struct tern_bytes bytes[TERN_PURPOSE_COUNT][TERN_DIRECTION_COUNT];
};

// Absolute socket counters, as TCP_INFO gives them, seen from the end that reads them.
struct tern_socket_counters {
    uint64_t bytes_sent;     // retransmitted bytes included
    uint64_t bytes_received; // in order, without duplicates
    uint64_t bytes_retransmitted;
    uint32_t segments_sent;     // retransmissions and pure acknowledgements included
    uint32_t segments_received; // pure acknowledgements included
    uint32_t header_bytes;      // IP + TCP header of one segment: 52 for IPv4 with timestamps
};

// Bytes of options that only a SYN segment has: MSS, window scale and "SACK permitted". header_bytes lacks them.
#define TERN_METER_SYN_BYTES 8u

const char *tern_purpose_name(enum tern_purpose purpose);

// into += other, counter by counter.
void tern_bytes_add(struct tern_bytes *into, const struct tern_bytes *other);
void tern_meter_add(struct tern_meter *into, const struct tern_meter *other);

// All purposes of one direction together.
struct tern_bytes tern_meter_total(const struct tern_meter *meter, enum tern_direction direction);

// The tls and wire bytes that passed between two readings of one socket; payload and http are 0.
// sent and received are as seen from the end that read the counters.
void tern_socket_delta(const struct tern_socket_counters *before,
                       const struct tern_socket_counters *after, struct tern_bytes *sent,
                       struct tern_bytes *received);

// --- Prices

// Estimates the wire bytes of requests before they are sent: both directions, TCP and IP headers included. The client's
// budgets and the aggregator's download plans and codecs use the estimates. Bytes that were sent are always measured.
//
// Measured with Tern's client and aggregator, ECDSA P-256, over a link of 1,500 bytes MTU:
//   unshare -n sh -c 'ip link set lo mtu 1500 up && ./tern bench protocol'
// Wire bytes: a full handshake 1,900 to 1,932, a resumed one 1,055 to 1,083. Beyond the bodies, which grow by 1/26: a
// check-in 303, an update 316, a download 396, of which 104 are the headers of one segment each way. On a slower link a
// separate acknowledgement of the reply adds 52. The constants below are barely above these figures. The test
// end_to_end_price compares them with the meter: an estimate is never too low, and too high by at most 200 bytes an
// exchange or handshake and 4 % of the bodies.

// A request and its reply: request line and headers, a TLS record and a segment each, and one acknowledgement.
#define TERN_PRICE_EXCHANGE 450u

// The entry in the task of a download that the reply to a check-in includes (inline).
#define TERN_PRICE_INLINE 8u

// Opening and closing the connection: TCP and TLS.
#define TERN_PRICE_KEPT 0u       // it is open already
#define TERN_PRICE_RESUMED 1200u // with a session ticket
#define TERN_PRICE_FULL 2048u

// Bytes of bodies for one byte of segment headers, acknowledgements and further TLS records: a segment of 1,400 bytes has
// 52 bytes of headers, half an acknowledgement and a part of a record.
#define TERN_PRICE_SHARE 16u

// The most bytes of inline downloads in one reply. Inline saves an exchange, but a broken connection loses the bytes
// received so far, where a separate download resumes: a hundredth of them if one reply in 50 breaks half way.
#define TERN_PRICE_INLINE_MAX (100u * TERN_PRICE_EXCHANGE)

// Returns the wire bytes of `exchanges` requests with `bodies` bytes of bodies in total, both directions. opening:
// TERN_PRICE_KEPT, _RESUMED or _FULL.
static inline uint64_t tern_price(uint32_t opening, uint32_t exchanges, uint64_t bodies)
{
    return opening + (uint64_t)exchanges * TERN_PRICE_EXCHANGE + bodies + bodies / TERN_PRICE_SHARE;
}

#ifdef __cplusplus
}
#endif

#endif
