// Implements the transport port (ports.h) on mbedTLS and lwIP's raw TCP API, over one connection. Calls do not block: an
// exchange returns TERN_AGAIN until it is complete. Counts the bytes of every IP packet. One thread; the caller owns the
// memory.
#ifndef TERN_FIRMWARE_TRANSPORT_H
#define TERN_FIRMWARE_TRANSPORT_H

#include "board.h"
#include "http/message.h"
#include "net/device_tls.h"
#include "net/link.h"
#include "ports.h"

// Size of the buffer that first takes the header of the request and the beginning of its body, so that a small request is one
// TLS record and one segment, and afterwards received bytes of the response.
#define TERN_FIRMWARE_TRANSPORT_BUFFER 512u

// The phases of an exchange.
enum tern_firmware_exchange {
    TERN_EXCHANGE_NONE, // no exchange is active
    TERN_EXCHANGE_CONNECT,
    TERN_EXCHANGE_HANDSHAKE,
    TERN_EXCHANGE_SEND,
    TERN_EXCHANGE_RECEIVE
};

// The caller sets link, tcp and tls, each to an object that is all zero and lives forever. The other fields are private.
struct tern_firmware_transport {
    struct tern_link *link;
    struct tern_tcp *tcp;
    struct tern_firmware_tls *tls;
    const struct tern_board_settings *settings;
    enum tern_firmware_exchange phase;
    bool connected;            // a connection is open, and the aggregator is verified
    bool reused;               // this exchange started on the connection of an earlier exchange
    enum tern_purpose purpose; // the purpose for which the meter now counts bytes
    struct tern_meter meter;
    struct tern_http_reader reader;
    uint32_t moved;    // the last result of tern_tcp_moved()
    uint64_t moved_ms; // when tern_tcp_moved() last changed
    uint64_t end_ms;   // the time at which the exchange fails, even if bytes still arrive
    size_t buffered;   // bytes of the request's header and body in buffer
    size_t body_from;  // offset of the first body byte that is not in buffer
    size_t sent;       // bytes of the request that were sent, of its header and its body
    uint8_t buffer[TERN_FIRMWARE_TRANSPORT_BUFFER];
};

// Starts the link, lwIP and TLS. settings: borrowed forever.
// TERN_ERR_ARGUMENT   settings has no CA and no key, or the CA is no certificate
// TERN_ERR_IO         the board has no link, or no entropy
// TERN_ERR_NO_MEMORY  the arena of mbedTLS is too small
TERN_MUST_USE enum tern_result
tern_firmware_transport_start(struct tern_firmware_transport *net,
                              const struct tern_board_settings *settings);

// Sets the identity and key of handshakes by a pre-shared key, which are derived from client_id and token. Call it when the
// client has an identity. token: borrowed forever.
void tern_firmware_transport_identify(struct tern_firmware_transport *net, uint64_t client_id,
                                      const char *token);

// Receives frames and runs lwIP's timers. Call it in every iteration of the main loop.
void tern_firmware_transport_poll(struct tern_firmware_transport *net);

// Returns the port for struct tern_ports.
struct tern_transport tern_firmware_transport_port(struct tern_firmware_transport *net);

// Returns mbedTLS's peak use of its arena since the start, in bytes. *given: the size of the arena in bytes.
size_t tern_firmware_transport_peak(const struct tern_firmware_transport *net, size_t *given);

#endif
