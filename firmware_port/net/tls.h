// TLS over the stream: mbedTLS as a client that verifies the aggregator by its certificate or by a
// key that only the two have. Memory comes from one static arena. One thread; static state.
#ifndef TERN_FIRMWARE_TLS_H
#define TERN_FIRMWARE_TLS_H

#include "board.h"
#include "result.h"

// TERN_ERR_ARGUMENT  settings has no CA and no key, or the CA is no certificate
// TERN_ERR_IO        the board has no entropy
// TERN_ERR_NO_MEMORY the arena is too small
TERN_MUST_USE enum tern_result tern_tls_start(const struct board_settings *settings);

// Sets identity and key for handshakes without certificates; see transport.h.
void tern_tls_identify(uint64_t client_id, const char *token);

// Begins a session over the stream, which is open. It resumes the last one if the server likes.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_tls_open(void);

// TERN_OK            the server is who it should be, and this is its first moment
// TERN_AGAIN         bytes have to come or go first
// TERN_ERR_TLS       it is not, or does not keep to the protocol
// TERN_ERR_NETWORK   the stream ended
// TERN_ERR_NO_MEMORY the arena is too small
TERN_MUST_USE enum tern_result tern_tls_handshake(void);

// Writes some of src. *written: how much, 0 unless TERN_OK.
// TERN_AGAIN        no room now; call again with the same bytes
// TERN_ERR_NETWORK  the connection is of no use any more
TERN_MUST_USE enum tern_result tern_tls_write(const uint8_t *src, size_t len, size_t *written);

// Reads what is there. *len: how much; 0 with TERN_OK: the server has ended the session properly.
// TERN_AGAIN        nothing is there now
// TERN_ERR_NETWORK  the connection was cut, or damaged
TERN_MUST_USE enum tern_result tern_tls_read(uint8_t *dst, size_t size, size_t *len);

// How far into the arena mbedTLS has ever reached. *given: its size.
size_t tern_tls_peak(size_t *given);

#endif
