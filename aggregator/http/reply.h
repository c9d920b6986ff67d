// Replies: the exchange, which is one request and the reply that it waits for; the mailbox through which replies return
// to the loop from any thread; and the writer, which turns a reply into bytes. Connections use all of it on their loop;
// handlers reply from any thread (tern_http_reply()). An exchange may outlive its connection, when the peer has closed,
// and its loop, when the server has stopped; a late reply is dropped then.
#ifndef TERN_HTTP_REPLY_H
#define TERN_HTTP_REPLY_H

#include "http/http.h"
#include "http/request.h"
#include <stdbool.h>

struct tern_connection;
struct tern_mailbox;
struct uv_async_s;

// --- Exchanges and their mailbox

struct tern_http_exchange {
    struct tern_mailbox *mailbox;
    struct tern_request_reader *reader;
    struct tern_connection *connection; // NULL once it is closed; for the loop's thread only
    struct tern_http_tag tag;           // under the mailbox's lock until the reply is taken
    struct tern_http_reply reply;
    struct tern_http_exchange *next; // in the mailbox
};

// Creates a mailbox for the calling thread's loop. `wake` is sent when another thread posts a reply. NULL when memory
// is short.
struct tern_mailbox *tern_mailbox_new(struct uv_async_s *wake);

// Declares the calling thread as the one that empties the mailbox after each callback; its own replies need no `wake`.
void tern_mailbox_own(struct tern_mailbox *mailbox);

// Closes the mailbox: it takes no replies from now on and no longer uses `wake`. Drops the loop's reference.
void tern_mailbox_close(struct tern_mailbox *mailbox);

// Returns all exchanges that have a reply, linked by `next`, the oldest first; the caller owns them. NULL = none.
struct tern_http_exchange *tern_mailbox_take(struct tern_mailbox *mailbox);

bool tern_mailbox_is_empty(struct tern_mailbox *mailbox);

// Takes over the reader. NULL when memory is short.
struct tern_http_exchange *tern_exchange_new(struct tern_mailbox *mailbox,
                                             struct tern_request_reader *reader,
                                             struct tern_connection *connection);

// Frees the exchange, but not the reply's body, which the caller has taken over.
void tern_exchange_free(struct tern_http_exchange *exchange);

// Returns the tag that the handler has set so far.
struct tern_http_tag tern_exchange_tag(struct tern_http_exchange *exchange);

// --- Writer: pure; one connection uses a tern_reply_out at a time

#define TERN_REPLY_HEAD_MAX 512u

// A reply being sent: its head as text, its body as a view into the blob, which it holds a reference of.
struct tern_reply_out {
    int status; // of the reply; interim responses leave it
    char head[TERN_REPLY_HEAD_MAX];
    size_t head_len;
    struct tern_blob *blob;
    const uint8_t *body;
    size_t body_len;
    size_t sent; // of head and body together
};

// How the request shapes its reply.
struct tern_reply_shape {
    bool head_only; // HEAD: send the length of the body, but not the body
    bool closes;    // send "Connection: close"
};

// Fills *out from *reply and takes over its body. Replies 416 to a range beyond the body, and 500 where a
// Cache-Control or Content-Type is too long for the head.
void tern_reply_write(const struct tern_http_reply *reply, struct tern_reply_shape shape,
                      struct tern_reply_out *out);

// Fills *out with the interim response to "Expect: 100-continue".
void tern_reply_write_continue(struct tern_reply_out *out);

// Returns a refusal with this status. why: the reason; TERN_OK = the listener's own sentence for the status. The body
// comes from handler->on_refusal for this path, or is a tern_Error.
struct tern_http_reply tern_reply_refusal(const struct tern_http_handler *handler, const char *path,
                                          int status, enum tern_result why);

// Records that `len` more bytes were sent. Sent bytes of a blob in a file leave memory.
void tern_reply_sent(struct tern_reply_out *out, size_t len);

// Returns how many bytes of the body have been sent.
size_t tern_reply_body_sent(const struct tern_reply_out *out);

// Releases the body; *out is empty after it.
void tern_reply_clear(struct tern_reply_out *out);

#endif
