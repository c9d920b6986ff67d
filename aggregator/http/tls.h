// TLS 1.2, and 1.3 where mbedTLS has it, server side, over a non-blocking socket. tls.c is the only
// file that knows mbedTLS's SSL layer. A context (certificate, key, random generator,
// configuration) belongs to one loop, so that no mbedTLS object is shared between threads; loops
// share ticket keys, which have their own lock.
#ifndef TERN_HTTP_TLS_H
#define TERN_HTTP_TLS_H

#include "http/certificate.h"
#include "http/http.h"
#include "http/tickets.h"
#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_tls_context;
struct tern_tls_session;

// What an operation on a stream came to.
enum tern_stream_status {
    TERN_STREAM_DONE,
    TERN_STREAM_WANT_READ,
    TERN_STREAM_WANT_WRITE,
    TERN_STREAM_END,   // the peer closed in order
    TERN_STREAM_FAILED // cut, or the peer broke the protocol
};

// The most bytes that one record carries, and so that one read returns.
#define TERN_TLS_RECORD_MAX 16384u

struct tern_tls_config {
    struct tern_pem certificate; // with the chain; borrowed for the call, as the next
    struct tern_pem private_key;
    struct tern_pem client_ca; // as the next, of struct tern_http_files
    bool client_certificate_optional;
    struct tern_ticket_keys *keys; // borrowed while the context lives; NULL = no tickets

    // As `psk` of struct tern_http_handler.
    bool (*psk)(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE]);
    void *psk_ctx;
};

// TERN_ERR_CONFIG  *why tells which file is wrong and how
TERN_MUST_USE enum tern_result tern_tls_context_new(const struct tern_tls_config *config,
                                                    struct tern_tls_context **context,
                                                    char why[256]);

// Lets go of the context; it goes with the last of its sessions. NULL is nothing.
void tern_tls_context_release(struct tern_tls_context *context);

// A session on the socket, which stays the caller's. NULL when memory is short.
struct tern_tls_session *tern_tls_session_new(struct tern_tls_context *context, int fd);
void tern_tls_session_free(struct tern_tls_session *session);

// Goes on with the handshake.
enum tern_stream_status tern_tls_handshake(struct tern_tls_session *session);

// After the handshake: true when a ticket stood in for the key exchange.
bool tern_tls_resumed(const struct tern_tls_session *session);

// After the handshake: the client that a pre-shared key proved, in it or in the one that the ticket
// is from; 0 = none.
uint64_t tern_tls_client(const struct tern_tls_session *session);

// After the handshake: returns the key of the ticket that it used or was given (known_tickets.h); 0 = none.
uint64_t tern_tls_ticket(const struct tern_tls_session *session);

// After the handshake: the common name of the certificate that the client has shown, in it or in the one
// that the ticket is from; "" = none. The session's own.
const char *tern_tls_certificate(const struct tern_tls_session *session);

// After a handshake that failed: what is wrong with the client's certificate; "" where that is not why.
const char *tern_tls_refusal(const struct tern_tls_session *session);

// Bytes of the TCP stream that the session has taken from the socket.
uint64_t tern_tls_bytes_received(const struct tern_tls_session *session);

// Bytes that the socket has taken from the session: progress of a slow write.
uint64_t tern_tls_bytes_sent(const struct tern_tls_session *session);

// size >= TERN_TLS_RECORD_MAX takes a whole record, so that nothing stays hidden in the session
// while the loop waits for the socket.
enum tern_stream_status tern_tls_read(struct tern_tls_session *session, uint8_t *dst, size_t size,
                                      size_t *len);

// One record of up to TERN_TLS_RECORD_MAX bytes. After TERN_STREAM_WANT_WRITE the same bytes must
// be given again.
enum tern_stream_status tern_tls_write(struct tern_tls_session *session, const uint8_t *src,
                                       size_t len, size_t *written);

// Sends the closing alert, once and without waiting.
void tern_tls_close(struct tern_tls_session *session);

#endif
