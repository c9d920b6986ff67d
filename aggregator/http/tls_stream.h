// The bytes of one connection, over TLS or plain TCP, and the counters of its socket. TLS is the server side of 1.2, and
// of 1.3 where mbedTLS has it; only this file uses mbedTLS's SSL layer. The server makes a TLS context (certificate, key,
// random generator, configuration) for each loop, so that threads share no mbedTLS object but the ticket keys, which
// have their own lock. A connection owns its stream and uses it on its loop's thread. No function blocks.
#ifndef TERN_HTTP_TLS_STREAM_H
#define TERN_HTTP_TLS_STREAM_H

#include "http/certificate.h"
#include "http/http.h"
#include "http/tickets.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- TLS context

struct tern_tls_context;

struct tern_tls_config {
    struct tern_pem certificate; // with the chain; the three files are borrowed for the call
    struct tern_pem private_key;
    struct tern_pem client_ca; // like client_certificate_optional, as in struct tern_http_files
    bool client_certificate_optional;
    struct tern_ticket_keys *keys; // borrowed while the context lives; NULL = no tickets

    // As `psk` of struct tern_http_handler.
    bool (*psk)(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE]);
    void *psk_ctx;
};

// TERN_ERR_CONFIG  *why names the wrong file and the reason
TERN_MUST_USE enum tern_result tern_tls_context_new(const struct tern_tls_config *config,
                                                    struct tern_tls_context **context,
                                                    char why[256]);

// Drops the creator's reference; the last of its streams frees the context. Accepts NULL.
void tern_tls_context_release(struct tern_tls_context *context);

// --- Stream

struct tern_tls_session;

// The result of an operation on a stream.
enum tern_stream_status {
    TERN_STREAM_DONE,
    TERN_STREAM_WANT_READ,
    TERN_STREAM_WANT_WRITE,
    TERN_STREAM_END,   // the peer closed in order
    TERN_STREAM_FAILED // the connection broke, or the peer violated the protocol
};

// The most bytes that one TLS record carries, and so that one read returns.
#define TERN_TLS_RECORD_MAX 16384u

// Bytes to send: a, then b, in as few TLS records as possible.
struct tern_stream_parts {
    const uint8_t *a;
    size_t a_len;
    const uint8_t *b;
    size_t b_len;
};

struct tern_stream {
    int fd;
    uint32_t header_bytes;        // IP and TCP headers without options; 0 = not TCP
    struct tern_tls_session *tls; // NULL = plain
    uint64_t bytes_received;      // without TLS
    uint64_t bytes_sent;
};

// Takes over the socket and configures it. context NULL = plain.
TERN_MUST_USE enum tern_result tern_stream_open(struct tern_stream *stream, int fd, bool is_tcp,
                                                struct tern_tls_context *context);
void tern_stream_close(struct tern_stream *stream);

// Lets acknowledgements wait for the reply that can carry them. The kernel drops this setting when it sends an
// acknowledgement alone, so call it before each request.
void tern_stream_delay_acknowledgements(const struct tern_stream *stream);

// Copies the bytes that have arrived, at most `size`, and leaves them unread. Returns their number.
size_t tern_stream_peek(const struct tern_stream *stream, uint8_t *dst, size_t size);

// What the TLS handshake has shown of the peer.
struct tern_stream_peer {
    bool resumed;    // a ticket replaced the key exchange
    uint64_t client; // whose pre-shared key it proved, or the handshake of the ticket; 0 = none
    uint64_t ticket; // key of the ticket that it used or issued (tern_ticket_tag()); 0 = none
    // Common name of the certificate that the client has shown, in this handshake or the one of the ticket; "" = none.
    // Valid while the stream is open.
    const char *certificate;
    // After a failed handshake: what is wrong with the client's certificate; "" where that is not the reason.
    const char *refusal;
};

// Without TLS, and before the handshake, all is 0 or "".
struct tern_stream_peer tern_stream_peer(const struct tern_stream *stream);

// Continues the TLS handshake. For a stream with TLS.
enum tern_stream_status tern_stream_handshake(struct tern_stream *stream);

// size >= TERN_TLS_RECORD_MAX, so that the session keeps no bytes of a record while the loop waits for the socket.
enum tern_stream_status tern_stream_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                         size_t *len);

// scratch: TERN_TLS_RECORD_MAX bytes, to assemble a record. After TERN_STREAM_WANT_WRITE pass the same parts again.
enum tern_stream_status tern_stream_write(struct tern_stream *stream,
                                          const struct tern_stream_parts *parts, uint8_t *scratch,
                                          size_t *written);

// Returns how many bytes the socket has accepted so far.
uint64_t tern_stream_progress(const struct tern_stream *stream);

// Sends the FIN and frees the TLS session. tern_stream_discard() drops what the peer still sends.
void tern_stream_shut(struct tern_stream *stream);

// Sends TLS's closing alert before tern_stream_shut(), for when this side closes first.
void tern_stream_finish(struct tern_stream *stream);

// Reads and drops bytes. TERN_STREAM_END when the peer has closed too. scratch: TERN_TLS_RECORD_MAX bytes.
enum tern_stream_status tern_stream_discard(struct tern_stream *stream, uint8_t *scratch,
                                            size_t *len);

// Returns the socket's counters from the SYN on, without bytes that have arrived and are unread: these belong to a later
// request.
void tern_stream_counters(const struct tern_stream *stream, struct tern_socket_counters *counters);

// Returns all counters at the end of the stream. Counts the acknowledgement of the last FIN in advance, since it arrives
// when the socket is closed.
void tern_stream_final_counters(const struct tern_stream *stream,
                                struct tern_socket_counters *counters);

#endif
