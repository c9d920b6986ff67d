// The transport port over mbedTLS over lwIP's raw TCP API: one connection, never blocking (an
// exchange returns TERN_AGAIN until it is done), every IP packet counted as it passes the link.
// One thread; the caller owns the memory.
#ifndef TERN_FIRMWARE_TRANSPORT_H
#define TERN_FIRMWARE_TRANSPORT_H

#include "board.h"
#include "http/message.h"
#include "net/device_tls.h"
#include "net/link.h"
#include "ports.h"

// Holds the request's head and as much of its body as fits, so that a small request is one record
// and one segment; then pieces of the response.
#define TERN_FIRMWARE_TRANSPORT_BUFFER 512u

// An exchange is in one phase.
enum tern_firmware_exchange {
    TERN_EXCHANGE_NONE, // none is under way
    TERN_EXCHANGE_CONNECT,
    TERN_EXCHANGE_HANDSHAKE,
    TERN_EXCHANGE_SEND,
    TERN_EXCHANGE_RECEIVE
};

// Fields are private but for the first three: the parts below, which the caller sets, each all zero
// and in place for good.
struct tern_firmware_transport {
    struct tern_link *link;
    struct tern_tcp *tcp;
    struct tern_firmware_tls *tls;
    const struct tern_board_settings *settings;
    enum tern_firmware_exchange phase;
    bool kept;                 // a connection is open and verified
    bool reused;               // this exchange began on it
    enum tern_purpose purpose; // of the bytes that pass now
    struct tern_meter meter;
    struct tern_http_reader reader;
    uint32_t moved;    // tern_tcp_moved() when it last changed,
    uint64_t moved_ms; // and when that was
    uint64_t end_ms;   // when the exchange is given up whatever moves
    size_t buffered;   // bytes of head and body in buffer
    size_t body_from;  // where the body goes on behind them
    size_t sent;       // of buffer and the rest of the body together
    uint8_t buffer[TERN_FIRMWARE_TRANSPORT_BUFFER];
};

// Starts the link, lwIP and TLS. settings are borrowed for good.
// TERN_ERR_ARGUMENT   no CA and no key, or the CA is no certificate
// TERN_ERR_IO         the board has no link, or no entropy
// TERN_ERR_NO_MEMORY  mbedTLS was given too little
TERN_MUST_USE enum tern_result
tern_firmware_transport_start(struct tern_firmware_transport *net,
                              const struct tern_board_settings *settings);

// Who the device is, once it is enrolled: the identity and key of a PSK handshake. Not needed for
// certificates. token is borrowed for good.
void tern_firmware_transport_identify(struct tern_firmware_transport *net, uint64_t client_id,
                                      const char *token);

// Takes frames from the link and runs lwIP's timers. Call it in every turn of the main loop.
void tern_firmware_transport_poll(struct tern_firmware_transport *net);

struct tern_transport tern_firmware_transport_port(struct tern_firmware_transport *net);

// How far into its memory mbedTLS has ever reached; *given: how much that is.
size_t tern_firmware_transport_peak(const struct tern_firmware_transport *net, size_t *given);

#endif
