#include "http/client_hello.h"
#include <stdbool.h>

#define RECORD_HANDSHAKE 22u
#define CLIENT_HELLO 1u
#define VERSION_AND_RANDOM 34u
#define SESSION_TICKET 35u
#define PRE_SHARED_KEY 41u
#define TICKET_AGE 4u

// The unread bytes. Reading beyond the end sets `bad` and empties the view; a bad view yields zeros.
struct view {
    const uint8_t *at;
    size_t len;
    bool bad;
};

static const uint8_t *take(struct view *view, size_t len)
{
    if (view->bad || len > view->len) {
        *view = (struct view){.bad = true};
        return NULL;
    }
    const uint8_t *at = view->at;
    view->at += len;
    view->len -= len;
    return at;
}

// Reads a big-endian number of `bytes` bytes.
static size_t number(struct view *view, size_t bytes)
{
    size_t value = 0;
    const uint8_t *at = take(view, bytes);
    for (size_t i = 0; at != NULL && i < bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

// Reads a vector: a length in `bytes` bytes, then as many bytes.
static struct view vector(struct view *view, size_t bytes)
{
    const size_t len = number(view, bytes);
    const uint8_t *at = take(view, len);
    return (struct view){.at = at, .len = at != NULL ? len : 0, .bad = at == NULL};
}

static void offer(const struct view *ticket, struct tern_offered_ticket *offered, size_t *count)
{
    if (ticket->len > 0 && *count < TERN_OFFERED_TICKETS) {
        offered[*count] = (struct tern_offered_ticket){.bytes = ticket->at, .len = ticket->len};
        ++*count;
    }
}

static void take_identities(struct view *extension, struct tern_offered_ticket *offered,
                            size_t *count)
{
    struct view identities = vector(extension, 2);
    while (identities.len > 0) {
        const struct view identity = vector(&identities, 2);
        if (take(&identities, TICKET_AGE) != NULL) {
            offer(&identity, offered, count);
        }
    }
}

size_t tern_client_hello_tickets(const uint8_t *bytes, size_t len,
                                 struct tern_offered_ticket offered[TERN_OFFERED_TICKETS])
{
    size_t count = 0;
    struct view all = {.at = bytes, .len = len};
    const bool is_handshake = number(&all, 1) == RECORD_HANDSHAKE;
    (void)take(&all, 2); // the record's version
    struct view record = vector(&all, 2);
    const bool is_hello = number(&record, 1) == CLIENT_HELLO;
    struct view hello = vector(&record, 3);
    (void)take(&hello, VERSION_AND_RANDOM);
    (void)vector(&hello, 1); // session id
    (void)vector(&hello, 2); // suites
    (void)vector(&hello, 1); // compression
    struct view extensions = vector(&hello, 2);
    if (!is_handshake || !is_hello || hello.bad) {
        return 0;
    }
    while (extensions.len > 0) {
        const size_t type = number(&extensions, 2);
        struct view extension = vector(&extensions, 2);
        if (type == SESSION_TICKET) {
            offer(&extension, offered, &count);
        } else if (type == PRE_SHARED_KEY) {
            take_identities(&extension, offered, &count);
        }
    }
    return count;
}
