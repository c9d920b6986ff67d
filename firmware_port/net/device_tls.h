// TLS over TCP: an mbedTLS client that verifies the aggregator by its certificate or by a shared key. mbedTLS has one allocator
// for the whole image, which uses the arena here, so an image has only one struct tern_firmware_tls (tls_state.h). One thread.
#ifndef TERN_FIRMWARE_TLS_H
#define TERN_FIRMWARE_TLS_H

#include "board.h"
#include "net/tcp.h"
#include "result.h"

struct tern_firmware_tls;

// Initialises mbedTLS. tls: must be all zero; mbedTLS refers to it forever. tcp: the connection that carries the sessions,
// borrowed forever.
// TERN_ERR_ARGUMENT  settings has no CA and no key, or the CA is no certificate
// TERN_ERR_IO        the board has no entropy
// TERN_ERR_NO_MEMORY the arena is too small
TERN_MUST_USE enum tern_result tern_firmware_tls_start(struct tern_firmware_tls *tls,
                                                       struct tern_tcp *tcp,
                                                       const struct tern_board_settings *settings);

// Sets identity and key of handshakes by a pre-shared key; see tern_firmware_transport_identify().
void tern_firmware_tls_identify(struct tern_firmware_tls *tls, uint64_t client_id,
                                const char *token);

// Starts a session over the TCP connection, which must be open. Offers the server to resume the last session.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_firmware_tls_open(struct tern_firmware_tls *tls);

// Continues the handshake.
// TERN_OK            the handshake is complete and the server verified
// TERN_AGAIN         waits for bytes to arrive or to be sent
// TERN_ERR_TLS       the server is not verified, or violates the protocol
// TERN_ERR_NETWORK   the connection ended
// TERN_ERR_NO_MEMORY the arena is too small
TERN_MUST_USE enum tern_result tern_firmware_tls_handshake(struct tern_firmware_tls *tls);

// Writes the first bytes of src[0..len). *written: their number; 0 unless the result is TERN_OK.
// TERN_AGAIN        TCP's buffer is full; call again with the same bytes
// TERN_ERR_NETWORK  the connection is lost
TERN_MUST_USE enum tern_result tern_firmware_tls_write(struct tern_firmware_tls *tls,
                                                       const uint8_t *src, size_t len,
                                                       size_t *written);

// Reads received bytes. *len: their number; 0 with TERN_OK: the server has closed the session.
// TERN_AGAIN        no bytes have arrived
// TERN_ERR_NETWORK  the connection was cut, or its bytes are damaged
TERN_MUST_USE enum tern_result tern_firmware_tls_read(struct tern_firmware_tls *tls, uint8_t *dst,
                                                      size_t size, size_t *len);

// Returns mbedTLS's peak use of the arena since the start, in bytes. *given: the size of the arena in bytes.
size_t tern_firmware_tls_peak(const struct tern_firmware_tls *tls, size_t *given);

#endif
