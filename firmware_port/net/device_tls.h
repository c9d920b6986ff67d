// TLS over TCP: mbedTLS as a client that verifies the aggregator by its certificate or by a
// key that only the two have. One thread. mbedTLS
// has one allocator for the whole image, which takes its memory from the arena here: one TLS in an
// image; tls_state.h has its memory.
#ifndef TERN_FIRMWARE_TLS_H
#define TERN_FIRMWARE_TLS_H

#include "board.h"
#include "net/tcp.h"
#include "result.h"

struct tern_firmware_tls;

// tls: all zero; mbedTLS refers to it from now on. tcp: what carries the bytes, borrowed for good.
// TERN_ERR_ARGUMENT  settings has no CA and no key, or the CA is no certificate
// TERN_ERR_IO        the board has no entropy
// TERN_ERR_NO_MEMORY the arena is too small
TERN_MUST_USE enum tern_result tern_firmware_tls_start(struct tern_firmware_tls *tls,
                                                       struct tern_tcp *tcp,
                                                       const struct tern_board_settings *settings);

// Sets identity and key for handshakes without certificates; see transport.h.
void tern_firmware_tls_identify(struct tern_firmware_tls *tls, uint64_t client_id,
                                const char *token);

// Begins a session over TCP, which is connected. It resumes the last one if the server likes.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_firmware_tls_open(struct tern_firmware_tls *tls);

// TERN_OK            the server is who it should be, and this is its first moment
// TERN_AGAIN         bytes have to come or go first
// TERN_ERR_TLS       it is not, or does not keep to the protocol
// TERN_ERR_NETWORK   the connection ended
// TERN_ERR_NO_MEMORY the arena is too small
TERN_MUST_USE enum tern_result tern_firmware_tls_handshake(struct tern_firmware_tls *tls);

// Writes some of src. *written: how much, 0 unless TERN_OK.
// TERN_AGAIN        no room now; call again with the same bytes
// TERN_ERR_NETWORK  the connection is of no use any more
TERN_MUST_USE enum tern_result tern_firmware_tls_write(struct tern_firmware_tls *tls,
                                                       const uint8_t *src, size_t len,
                                                       size_t *written);

// Reads what is there. *len: how much; 0 with TERN_OK: the server has ended the session properly.
// TERN_AGAIN        nothing is there now
// TERN_ERR_NETWORK  the connection was cut, or damaged
TERN_MUST_USE enum tern_result tern_firmware_tls_read(struct tern_firmware_tls *tls, uint8_t *dst,
                                                      size_t size, size_t *len);

// How far into the arena mbedTLS has ever reached. *given: its size.
size_t tern_firmware_tls_peak(const struct tern_firmware_tls *tls, size_t *given);

#endif
