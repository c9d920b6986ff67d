// Byte counters by purpose, layer and direction. Who calls: the transport port (client) and the
// listener (aggregator) add; reports read. Plain data, no locking: one thread owns a meter.
//
// What the layers count, each including the one before it:
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

// Their numbers, from 0, stand in the records of devices and in the aggregator's database: a new
// purpose goes at the end.
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
    uint32_t segments_received; // likewise
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

#ifdef __cplusplus
}
#endif

#endif
