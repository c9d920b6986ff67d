// One request and the reply it waits for, and the mailbox through which replies come back to the
// loop from any thread. An exchange may outlive its connection (the peer left) and its loop (the
// server stopped); the mailbox is counted, so that a late reply is then merely dropped.
#ifndef TERN_HTTP_EXCHANGE_H
#define TERN_HTTP_EXCHANGE_H

#include "http/http.h"
#include "http/request_reader.h"
#include <pthread.h>
#include <uv.h>

struct tern_connection;
struct tern_mailbox;

struct tern_http_exchange {
    struct tern_mailbox *mailbox;
    struct tern_request_reader *reader;
    struct tern_connection *connection; // NULL once it is gone; only the loop's thread looks
    struct tern_http_tag tag;           // under the mailbox's lock until the reply is taken
    struct tern_http_reply reply;
    struct tern_http_exchange *next; // in the mailbox
};

// A mailbox with one reference, for the calling thread's loop. wake is sent when something is
// posted by another thread. NULL when memory is short.
struct tern_mailbox *tern_mailbox_new(uv_async_t *wake);

// Names the calling thread as the one that empties the mailbox after each of its callbacks, and so
// needs no waking.
void tern_mailbox_own(struct tern_mailbox *mailbox);

// After this nothing is taken any more, and wake is not touched. Drops the loop's reference.
void tern_mailbox_close(struct tern_mailbox *mailbox);

// All exchanges that were replied to so far, linked by next, oldest first; now the caller's. NULL
// when there is none.
struct tern_http_exchange *tern_mailbox_take(struct tern_mailbox *mailbox);

bool tern_mailbox_is_empty(struct tern_mailbox *mailbox);

// Takes over the reader. NULL when memory is short.
struct tern_http_exchange *tern_exchange_new(struct tern_mailbox *mailbox,
                                             struct tern_request_reader *reader,
                                             struct tern_connection *connection);

// Frees all but the reply's body, which whoever took the exchange has moved out.
void tern_exchange_free(struct tern_http_exchange *exchange);

// The tag as set so far.
struct tern_http_tag tern_exchange_tag(struct tern_http_exchange *exchange);

#endif
