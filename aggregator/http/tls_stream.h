// Reads and writes the bytes of one connection, with or without TLS, and reads the socket's counters. TLS is the server
// side of 1.2, and of 1.3 if mbedTLS has it. Each loop has a TLS context (certificate, key, random generator,
// configuration), so that threads share only the ticket keys, which have a lock. A connection owns its stream and uses
// it on its loop's thread. No function blocks.
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
    // With the chain; the content of all three files is borrowed for the call.
    struct tern_pem certificate;
    struct tern_pem private_key;
    struct tern_pem client_ca;        // tern_http_files.client_ca; bytes NULL = none
    bool client_certificate_optional; // tern_http_files.client_certificate_optional
    struct tern_ticket_keys *keys;    // must outlive the context; NULL = no tickets
    // tern_http_handler.psk
    bool (*psk)(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE]);
    void *psk_ctx;
};

// TERN_ERR_CONFIG a file is wrong; `why` has the file's name and the reason
TERN_MUST_USE enum tern_result tern_tls_context_new(const struct tern_tls_config *config,
                                                    struct tern_tls_context **context,
                                                    char why[256]);

// Drops the creator's reference. The last stream of the context frees it. Accepts NULL.
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

// Most bytes in one TLS record, and so in one read.
#define TERN_TLS_RECORD_MAX 16384u

// Bytes to send: `a`, then `b`, in as few TLS records as possible.
struct tern_stream_parts {
    const uint8_t *a;
    size_t a_len;
    const uint8_t *b;
    size_t b_len;
};

struct tern_stream {
    int fd;
    uint32_t header_bytes;        // IP and TCP headers without options; 0 = not TCP
    struct tern_tls_session *tls; // NULL = no TLS
    uint64_t bytes_received;      // without bytes_ahead
    size_t bytes_ahead;           // read from the socket for a later tern_stream_read()
    uint64_t bytes_sent;          // accepted by the socket
};

// Takes over the socket and sets its options. context: NULL = no TLS. *stream must stay at its address while the stream
// is open.
TERN_MUST_USE enum tern_result tern_stream_open(struct tern_stream *stream, int fd, bool is_tcp,
                                                struct tern_tls_context *context);
void tern_stream_close(struct tern_stream *stream);

// The peer's properties, from the TLS handshake. A resumed session has the client and the certificate of the session's
// first handshake.
struct tern_stream_peer {
    bool resumed;            // a ticket replaced the key exchange
    uint64_t client;         // the client whose pre-shared key was proved; 0 = none
    uint64_t ticket;         // tern_ticket_tag() of the ticket that was used or issued; 0 = none
    const char *certificate; // common name of the client's certificate; "" = none
    const char *refusal; // fault of the client's certificate that failed the handshake; "" = none
};

// Returns the peer; without TLS and before the handshake, all fields are 0 or "". Texts are valid while the stream is open.
struct tern_stream_peer tern_stream_peer(const struct tern_stream *stream);

// Continues the TLS handshake. For a stream with TLS.
enum tern_stream_status tern_stream_handshake(struct tern_stream *stream);

// Reads up to `size` bytes. size >= TERN_TLS_RECORD_MAX: the session must not keep decrypted bytes while the loop waits for
// the socket.
enum tern_stream_status tern_stream_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                         size_t *len);

// Writes some or all bytes of `parts`; *written is their number. scratch: TERN_TLS_RECORD_MAX bytes. After
// TERN_STREAM_WANT_WRITE pass the same parts again.
enum tern_stream_status tern_stream_write(struct tern_stream *stream,
                                          const struct tern_stream_parts *parts, uint8_t *scratch,
                                          size_t *written);

// Frees the TLS session, after its closing alert if sends_alert, and sends the FIN. tern_stream_read() then returns bytes
// that the peer still sends, without decryption.
void tern_stream_shut(struct tern_stream *stream, bool sends_alert);

// Reads the socket's counters from the SYN on. at_end: the stream is closed next. Unread bytes count then, and so does the
// acknowledgement of the last FIN, which arrives after the socket is closed. Otherwise unread bytes belong to a later request.
void tern_stream_counters(const struct tern_stream *stream, bool at_end,
                          struct tern_socket_counters *counters);

#endif
