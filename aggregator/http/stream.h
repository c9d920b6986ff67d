// The bytes of one connection, over TLS or in the clear, and what its socket has counted. Owned by
// one loop; never blocks.
#ifndef TERN_HTTP_STREAM_H
#define TERN_HTTP_STREAM_H

#include "http/tls.h"
#include "meter/meter.h"

// A view of bytes to send: a then b, in as few TLS records as they fit into.
struct tern_stream_parts {
    const uint8_t *a;
    size_t a_len;
    const uint8_t *b;
    size_t b_len;
};

struct tern_stream {
    int fd;
    uint32_t header_bytes;        // IP and TCP headers without options; 0 = not TCP
    struct tern_tls_session *tls; // NULL = in the clear
    uint64_t bytes_received;      // in the clear
    uint64_t bytes_sent;
};

// Takes over the socket, sets it up. context NULL = in the clear.
TERN_MUST_USE enum tern_result tern_stream_open(struct tern_stream *stream, int fd, bool is_tcp,
                                                struct tern_tls_context *context);

// Lets acknowledgements wait for the reply that they can travel with. The kernel forgets that when
// one had to be sent alone, so it is said again before each request.
void tern_stream_delay_acknowledgements(const struct tern_stream *stream);
void tern_stream_close(struct tern_stream *stream);

// The client that the TLS handshake proved by a pre-shared key; 0 = none.
uint64_t tern_stream_client(const struct tern_stream *stream);

// Returns the key of the TLS session's ticket (known_tickets.h); 0 = none.
uint64_t tern_stream_ticket(const struct tern_stream *stream);

// Copies the bytes that have arrived, at most `size`, and leaves them unread. Returns their number.
size_t tern_stream_peek(const struct tern_stream *stream, uint8_t *dst, size_t size);

// The common name of the certificate that the peer has shown, while the stream is open; "" = none.
const char *tern_stream_certificate(const struct tern_stream *stream);

// size >= TERN_TLS_RECORD_MAX.
enum tern_stream_status tern_stream_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                         size_t *len);

// scratch: TERN_TLS_RECORD_MAX bytes to put a record together in. After TERN_STREAM_WANT_WRITE the
// same parts must be given again.
enum tern_stream_status tern_stream_write(struct tern_stream *stream,
                                          const struct tern_stream_parts *parts, uint8_t *scratch,
                                          size_t *written);

// Bytes that the socket has taken so far.
uint64_t tern_stream_progress(const struct tern_stream *stream);

// Sends the FIN and drops the TLS session. What the peer still sends can be thrown away by
// tern_stream_discard().
void tern_stream_shut(struct tern_stream *stream);

// The same with TLS's closing alert before it, for when we are the first to close.
void tern_stream_finish(struct tern_stream *stream);

// TERN_STREAM_END when the peer has closed too. scratch: TERN_TLS_RECORD_MAX bytes.
enum tern_stream_status tern_stream_discard(struct tern_stream *stream, uint8_t *scratch,
                                            size_t *len);

// The socket's counters, from the SYN on, without what has arrived but was not read: that belongs
// to a later request.
void tern_stream_counters(const struct tern_stream *stream, struct tern_socket_counters *counters);

// Everything, at the end of the stream. The acknowledgement of the last FIN, which comes when there
// is no socket left to count it, is counted in advance.
void tern_stream_final_counters(const struct tern_stream *stream,
                                struct tern_socket_counters *counters);

#endif
