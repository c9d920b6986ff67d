// Writes replies: turns a reply, or the listener's refusal of a request, into the bytes of a head and a view of the body.
// Connections call it on their loop. It uses no sockets.
#ifndef TERN_HTTP_REPLY_H
#define TERN_HTTP_REPLY_H

#include "http/http.h"
#include <stdbool.h>

#define TERN_REPLY_HEAD_MAX 512u

// A reply being sent: its head as text, and its body as a view into the blob, to which it has a reference.
struct tern_reply_out {
    int status;
    char head[TERN_REPLY_HEAD_MAX];
    size_t head_len;
    struct tern_blob *blob;
    const uint8_t *body;
    size_t body_len;
    size_t sent; // bytes of head and body together
};

// How the request and the connection shape the reply.
struct tern_reply_shape {
    bool head_only; // HEAD: send the length of the body, but not the body
    bool closes;    // send "Connection: close"
};

// Fills *out from *reply and takes over its body. Replies 416 to a range beyond the body, and 500 if the headers are too
// long for the head.
void tern_reply_write(const struct tern_http_reply *reply, struct tern_reply_shape shape,
                      struct tern_reply_out *out);

// Returns a refusal with this status. why: the reason; TERN_OK = the sentence of the status. handler->on_refusal writes
// the body; if on_refusal is NULL, the body is a tern_Error. given: the sentence; NULL = that of `why` or the status.
struct tern_http_reply tern_reply_refusal(const struct tern_http_handler *handler, const char *path,
                                          int status, enum tern_result why, const char *given);

// Records that `len` more bytes were sent. The pages of sent bytes of a blob in a file are evicted from memory.
void tern_reply_sent(struct tern_reply_out *out, size_t len);

// Returns how many bytes of the body have been sent.
static inline size_t tern_reply_body_sent(const struct tern_reply_out *out)
{
    return out->sent > out->head_len ? out->sent - out->head_len : 0;
}

// Releases the body and empties *out.
void tern_reply_clear(struct tern_reply_out *out);

#endif
