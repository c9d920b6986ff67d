// A reply to bytes: the head as text, the body as a view into its blob. Pure. Used by one
// connection at a time.
#ifndef TERN_HTTP_REPLY_WRITER_H
#define TERN_HTTP_REPLY_WRITER_H

#include "http/http.h"
#include <stdbool.h>

#define TERN_REPLY_HEAD_MAX 512u

// A reply being sent. The body is a view into blob, which this holds one reference of.
struct tern_reply_out {
    int status; // of a reply, not of an interim answer
    char head[TERN_REPLY_HEAD_MAX];
    size_t head_len;
    struct tern_blob *blob;
    const uint8_t *body;
    size_t body_len;
    size_t sent; // of head and body together
};

// What the request says about the shape of its reply.
struct tern_reply_shape {
    bool head_only; // HEAD: the length of the body, but not the body
    bool closes;    // say "Connection: close"
};

// Makes *out from *reply and takes over its body. A range beyond the body becomes 416. A Cache or
// Type value too long for the head becomes 500.
void tern_reply_write(const struct tern_http_reply *reply, struct tern_reply_shape shape,
                      struct tern_reply_out *out);

// The interim answer to "Expect: 100-continue".
void tern_reply_write_continue(struct tern_reply_out *out);

// A refusal with this status, for this reason or, where that is OK, the listener's own of the status. Its
// body is what handler->on_refusal makes of it for this path, or a tern_Error.
struct tern_http_reply tern_reply_refusal(const struct tern_http_handler *handler, const char *path,
                                          int status, enum tern_result why);

// So many bytes more were sent. Those of a blob in a file leave memory.
void tern_reply_sent(struct tern_reply_out *out, size_t len);

// Bytes of the body that have been sent.
size_t tern_reply_body_sent(const struct tern_reply_out *out);

// Releases the body; *out is empty after it.
void tern_reply_clear(struct tern_reply_out *out);

#endif
