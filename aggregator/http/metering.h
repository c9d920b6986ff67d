// What the bytes of one connection are counted for: HTTP bytes as they are read and written, TLS
// and wire bytes by the difference of two readings of the socket. Every byte is reported exactly
// once: at the end of an exchange for its tag, the handshake's for the first client that the
// connection turns out to belong to, what is left when the connection closes for its last tag.
// Owned by one loop.
#ifndef TERN_HTTP_METERING_H
#define TERN_HTTP_METERING_H

#include "http/http.h"
#include "http/stream.h"

struct tern_connection_meter {
    const struct tern_http_handler *handler;
    struct tern_socket_counters last; // at the last reading
    struct tern_bytes handshake_up;   // until it is reported
    struct tern_bytes handshake_down;
    uint64_t http_up; // since the last report
    uint64_t http_down;
    struct tern_http_tag tag; // of the last exchange
};

// The handshake (of TLS, or in the clear of TCP) is done.
void tern_connection_meter_handshake(struct tern_connection_meter *metering,
                                     const struct tern_stream *stream);

// An exchange for `tag` is over.
void tern_connection_meter_exchange(struct tern_connection_meter *metering,
                                    const struct tern_stream *stream,
                                    const struct tern_http_tag *tag);

// The stream is about to be closed.
void tern_connection_meter_close(struct tern_connection_meter *metering,
                                 const struct tern_stream *stream);

#endif
