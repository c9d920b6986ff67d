// Replies: the exchange (one request and its reply), the mailbox that returns replies from any thread to the loop, and the
// writer, which turns a reply into bytes. Connections use all of it on their loop; handlers reply from any thread
// (tern_http_reply()). An exchange may outlive its connection and its loop; its reply is then dropped.
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
    struct tern_http_tag tag; // guarded by the mailbox's lock until the loop has the reply
    struct tern_http_reply reply;
    struct tern_http_exchange *next; // in the mailbox
};

// Creates the mailbox of the calling thread's loop. A reply from another thread triggers `wake`. NULL when memory is short.
struct tern_mailbox *tern_mailbox_new(struct uv_async_s *wake);

// Makes the calling thread the owner, which empties the mailbox after each iteration; its own replies do not trigger
// `wake`.
void tern_mailbox_own(struct tern_mailbox *mailbox);

// Closes the mailbox: it accepts no more replies and no longer uses `wake`. Drops the loop's reference.
void tern_mailbox_close(struct tern_mailbox *mailbox);

// Removes and returns all exchanges that have a reply, linked by `next`, the oldest first. NULL = none.
struct tern_http_exchange *tern_mailbox_take(struct tern_mailbox *mailbox);

bool tern_mailbox_is_empty(struct tern_mailbox *mailbox);

// Takes over the reader. NULL when memory is short.
struct tern_http_exchange *tern_exchange_new(struct tern_mailbox *mailbox,
                                             struct tern_request_reader *reader,
                                             struct tern_connection *connection);

// Frees the exchange and its reader, but not the reply's body, which the caller has taken over.
void tern_exchange_free(struct tern_http_exchange *exchange);

// Frees the exchange and the reply's body.
void tern_exchange_drop(struct tern_http_exchange *exchange);

// Returns the tag that the handler has set so far.
struct tern_http_tag tern_exchange_tag(struct tern_http_exchange *exchange);

// --- Writer

#define TERN_REPLY_HEAD_MAX 512u

// A reply being sent: its head as text, and its body as a view into the blob, to which it has a reference.
struct tern_reply_out {
    int status; // of the last reply that is no interim response
    char head[TERN_REPLY_HEAD_MAX];
    size_t head_len;
    struct tern_blob *blob;
    const uint8_t *body;
    size_t body_len;
    size_t sent; // of head and body together
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

// Fills *out with the interim response to "Expect: 100-continue".
void tern_reply_write_continue(struct tern_reply_out *out);

// Returns a refusal with this status. why: the reason; TERN_OK = the listener's sentence for the status. handler->on_refusal
// writes the body; without it, the body is a tern_Error.
struct tern_http_reply tern_reply_refusal(const struct tern_http_handler *handler, const char *path,
                                          int status, enum tern_result why);

// Records that `len` more bytes were sent. The pages of sent bytes of a blob in a file are evicted from memory.
void tern_reply_sent(struct tern_reply_out *out, size_t len);

// Returns how many bytes of the body have been sent.
size_t tern_reply_body_sent(const struct tern_reply_out *out);

// Releases the body; *out is empty after it.
void tern_reply_clear(struct tern_reply_out *out);

#endif
