// A connection has one state, which determines the events that the connection awaits and the meaning of its deadline.
// run() takes steps until the connection must wait for the socket or the handler.
#include "http/connection.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// How long a peer may still send after this side has closed. If the socket were closed at once, the kernel would reset
// the connection and drop the reply.
#define DRAIN_MS 5000u

// Handshakes without a slot use at most 1/SPARE_PARTS of a loop's time. Even if other peers of its address flood the
// listener with ClientHellos, a device can still connect, unless the flood exceeds what the machine can handle.
#define SPARE_PARTS 8u
#define MS UINT64_C(1000) // a millisecond, in microseconds

// How many bytes a peer may still send after this side has closed.
#define DRAIN_BYTES (1u << 20)

// Attributes the bytes of a connection: HTTP bytes as they are read and written, TLS and wire bytes by the difference
// of two readings of the socket. Every byte is reported once: bytes of an exchange under the exchange's tag, bytes of
// the handshake under the connection's first client, and all other bytes under the last tag when the connection closes.
struct meter {
    const struct tern_http_handler *handler;
    struct tern_socket_counters last; // previous reading of the socket's counters
    struct tern_bytes handshake_up;   // bytes of the handshake that are not reported yet
    struct tern_bytes handshake_down;
    uint64_t http_up; // HTTP bytes since the last report
    uint64_t http_down;
    struct tern_http_tag tag; // of the last exchange
};

// Limit of reads per event, and of requests handled from one read, so that a fast peer does not starve other peers.
#define READ_BATCH 8

enum state {
    STATE_PROXIED,   // awaits the PROXY header; deadline: handshake_ms after accept()
    STATE_ARRIVING,  // awaits the handshake's first byte; deadline: handshake_ms
    STATE_DEFERRED,  // awaits a free handshake slot of its address; deadline: handshake_ms
    STATE_HANDSHAKE, // in the TLS handshake; deadline: handshake_ms after the slot was taken
    STATE_IDLE,      // between requests; deadline: idle_ms
    STATE_READING, // receives a request; deadline: request_ms after its first byte, extended by min_rate
    STATE_PENDING,  // the handler has the exchange; no deadline
    STATE_WRITING,  // sends a reply; deadline: write_ms without progress
    STATE_DRAINING, // this side has closed; deadline: DRAIN_MS
};

// After a reply the connection reads the next request, reads the body of the present request, or closes.
enum after_reply { AFTER_NEXT, AFTER_BODY, AFTER_CLOSE };

// The result of a step. STEP_ON: take the next step; STEP_WAIT: wait for an event; STEP_GONE: the connection is
// destroyed.
enum step { STEP_ON, STEP_WAIT, STEP_GONE };

struct tern_connection {
    struct tern_place place; // first, so that a pointer to the place also points to the connection
    struct tern_connection_group *group;
    LIST_ENTRY(tern_connection) open;
    TAILQ_ENTRY(tern_connection) deferred; // linked in STATE_DEFERRED only
    uint64_t recognised; // client of the ticket in the ClientHello, not yet proven; 0 = none
    struct tern_address slot_key;    // key of the handshake slot that is taken or awaited
    bool is_spare;                   // the handshake began without a slot, in the loop's spare time
    struct tern_proxy_header *proxy; // NULL unless STATE_PROXIED
    uv_poll_t poll;
    int watched; // uv_poll_event bits
    struct tern_stream stream;
    enum state state;
    uint64_t deadline;   // in now_ms(); 0 = none
    uint64_t reading_ms; // now_ms() when the request began
    struct tern_request_reader *reader;
    struct tern_http_exchange *exchange;
    uint8_t *input; // received bytes after the present request, at most the bytes of one read
    size_t input_len;
    int reads_remaining; // reads of READ_BATCH that this event may still use
    bool continued;      // "100 Continue" was sent for this request
    enum after_reply after;
    bool replies; // the reply being sent ends an exchange, not an interim response
    struct tern_reply_out out;
    struct tern_http_tag tag; // of the reply being sent
    size_t drained;           // bytes received in STATE_DRAINING
    struct meter meter;
    char peer[INET6_ADDRSTRLEN];
    bool peer_is_cache;
};

// --- Exchanges and their mailbox

// One request and its reply. An exchange may outlive its connection and its loop; the reply is then dropped.
struct tern_http_exchange {
    struct tern_mailbox *mailbox;
    struct tern_request_reader *reader;
    struct tern_connection *connection; // NULL once closed; for the loop's thread only
    struct tern_http_tag tag; // guarded by the mailbox's lock until the loop has the reply
    struct tern_http_reply reply;
    struct tern_http_exchange *next; // next exchange in the mailbox
};

// Returns exchanges with their replies from any thread to the loop.
struct tern_mailbox {
    pthread_mutex_t lock;
    uint32_t references; // by exchanges, and by the loop
    uv_async_t *wake; // triggered by a reply from another thread; NULL once the mailbox is closed
    pthread_t owner;  // the loop's thread, which empties the mailbox after each iteration
    struct tern_http_exchange *first;
    struct tern_http_exchange *last;
};

// NULL when memory is short.
static struct tern_mailbox *new_mailbox(uv_async_t *wake)
{
    struct tern_mailbox *mailbox = calloc(1, sizeof *mailbox);
    if (mailbox != NULL) {
        pthread_mutex_init(&mailbox->lock, NULL);
        mailbox->references = 1;
        mailbox->wake = wake;
    }
    return mailbox;
}

static void release_mailbox(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    bool last = --mailbox->references == 0;
    pthread_mutex_unlock(&mailbox->lock);
    if (last) {
        pthread_mutex_destroy(&mailbox->lock);
        free(mailbox);
    }
}

static bool has_replies(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    const bool has = mailbox->first != NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return has;
}

// Removes and returns all exchanges that have a reply, linked by `next`, the oldest first. NULL = none.
static struct tern_http_exchange *take_replies(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct tern_http_exchange *first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return first;
}

// Frees the exchange and its reader, but not the reply's body, which the caller has taken over.
static void free_exchange(struct tern_http_exchange *exchange)
{
    release_mailbox(exchange->mailbox);
    tern_reader_free(exchange->reader);
    free(exchange);
}

// Frees the exchange and the reply's body.
static void drop_exchange(struct tern_http_exchange *exchange)
{
    tern_blob_release(exchange->reply.body);
    free_exchange(exchange);
}

// Makes the mailbox refuse replies, no longer use `wake`, and drops the loop's reference.
static void close_mailbox(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->wake = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    struct tern_http_exchange *exchange = take_replies(mailbox);
    while (exchange != NULL) {
        struct tern_http_exchange *next = exchange->next;
        drop_exchange(exchange);
        exchange = next;
    }
    release_mailbox(mailbox);
}

// Adds the exchange to its mailbox. False: the loop has ended.
static bool post(struct tern_http_exchange *exchange)
{
    struct tern_mailbox *mailbox = exchange->mailbox;
    pthread_mutex_lock(&mailbox->lock);
    bool open = mailbox->wake != NULL;
    if (open) {
        bool was_empty = mailbox->first == NULL;
        *(was_empty ? &mailbox->first : &mailbox->last->next) = exchange;
        mailbox->last = exchange;
        // The lock prevents the loop from closing `wake` meanwhile.
        if (was_empty && !pthread_equal(mailbox->owner, pthread_self())) {
            uv_async_send(mailbox->wake);
        }
    }
    pthread_mutex_unlock(&mailbox->lock);
    return open;
}

// Takes over the reader. Called on the loop's thread. NULL when memory is short.
static struct tern_http_exchange *new_exchange(struct tern_mailbox *mailbox,
                                               struct tern_request_reader *reader,
                                               struct tern_connection *connection)
{
    struct tern_http_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->mailbox = mailbox;
    exchange->reader = reader;
    exchange->connection = connection;
    pthread_mutex_lock(&mailbox->lock);
    mailbox->references++;
    mailbox->owner = pthread_self();
    pthread_mutex_unlock(&mailbox->lock);
    return exchange;
}

// Returns the tag that the handler has set so far.
static struct tern_http_tag tag_of(struct tern_http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->mailbox->lock);
    struct tern_http_tag tag = exchange->tag;
    pthread_mutex_unlock(&exchange->mailbox->lock);
    return tag;
}

const struct tern_http_request *
tern_http_exchange_request(const struct tern_http_exchange *exchange)
{
    return tern_reader_request(exchange->reader);
}

void *tern_http_exchange_context(struct tern_http_exchange *exchange)
{
    return tern_reader_context(exchange->reader);
}

void tern_http_exchange_evict_body(const struct tern_http_exchange *exchange)
{
    tern_reader_evict_body(exchange->reader);
}

bool tern_http_exchange_unfinished(const struct tern_http_exchange *exchange, uint64_t owner,
                                   struct tern_http_unfinished *unfinished)
{
    return tern_reader_unfinished(exchange->reader, owner, unfinished);
}

void tern_http_exchange_tag(struct tern_http_exchange *exchange, const struct tern_http_tag *tag)
{
    pthread_mutex_lock(&exchange->mailbox->lock);
    exchange->tag = *tag;
    pthread_mutex_unlock(&exchange->mailbox->lock);
}

void tern_http_reply(struct tern_http_exchange *exchange, const struct tern_http_reply *reply)
{
    exchange->reply = *reply;
    exchange->next = NULL;
    if (!post(exchange)) {
        drop_exchange(exchange);
    }
}

// --- Metering

static bool is_empty(const struct tern_bytes *bytes)
{
    return bytes->payload == 0 && bytes->http == 0 && bytes->tls == 0 && bytes->wire == 0;
}

static void report_bytes(struct meter *metering, const struct tern_http_tag *tag,
                         const struct tern_bytes *up, const struct tern_bytes *down)
{
    const struct tern_http_handler *handler = metering->handler;
    if (handler->on_metered != NULL && !(is_empty(up) && is_empty(down))) {
        handler->on_metered(handler->ctx, tag, up, down);
    }
}

// Returns the bytes since the last reading, HTTP bytes included.
static void take_bytes(struct meter *metering, const struct tern_socket_counters *reading,
                       struct tern_bytes *up, struct tern_bytes *down)
{
    struct tern_socket_counters now = *reading;
    // tern_stream_counters() subtracts an estimate for unread segments, so the count can fall between two readings.
    if (now.segments_received < metering->last.segments_received) {
        now.segments_received = metering->last.segments_received;
    }
    tern_socket_delta(&metering->last, &now, down, up);
    metering->last = now;
    up->http = metering->http_up;
    down->http = metering->http_down;
    metering->http_up = 0;
    metering->http_down = 0;
}

// Counts the handshake (TLS, or TCP alone) once it has completed.
static void meter_handshake(struct meter *metering, const struct tern_stream *stream)
{
    struct tern_socket_counters now;
    tern_stream_counters(stream, false, &now);
    const bool first = metering->last.segments_sent == 0 && now.header_bytes > 0;
    take_bytes(metering, &now, &metering->handshake_up, &metering->handshake_down);
    if (first) {
        metering->handshake_up.wire += TERN_METER_SYN_BYTES;
        metering->handshake_down.wire += TERN_METER_SYN_BYTES;
    }
}

static void report_handshake(struct meter *metering, const struct tern_http_tag *first)
{
    struct tern_http_tag tag = {.client = first->client,
                                .round = first->round,
                                .purpose = TERN_PURPOSE_HANDSHAKE,
                                .peer_is_cache = first->peer_is_cache};
    report_bytes(metering, &tag, &metering->handshake_up, &metering->handshake_down);
    metering->handshake_up = metering->handshake_down = (struct tern_bytes){0};
}

static void report_tagged(struct meter *metering, const struct tern_http_tag *tag,
                          const struct tern_socket_counters *now)
{
    struct tern_bytes up;
    struct tern_bytes down;
    take_bytes(metering, now, &up, &down);
    up.payload = tag->payload_up;
    down.payload = tag->payload_down;
    report_bytes(metering, tag, &up, &down);
}

// Reports the bytes of a completed exchange under `tag`.
static void meter_exchange(struct meter *metering, const struct tern_stream *stream,
                           const struct tern_http_tag *tag)
{
    struct tern_socket_counters now;
    tern_stream_counters(stream, false, &now);
    if (tag->client != 0) {
        report_handshake(metering, tag);
    }
    report_tagged(metering, tag, &now);
    metering->tag = *tag;
    metering->tag.payload_up = 0;
    metering->tag.payload_down = 0;
    tern_http_tag_clear_cache(&metering->tag);
}

// Reports all bytes that are not reported yet. Call this function before the stream is closed.
static void meter_close(struct meter *metering, const struct tern_stream *stream)
{
    struct tern_socket_counters now;
    tern_stream_counters(stream, true, &now);
    report_handshake(metering, &metering->tag);
    report_tagged(metering, &metering->tag, &now);
}

// --- States

static void on_poll(uv_poll_t *poll, int status, int events);

// events: uv_poll_event bits.
static void watch(struct tern_connection *connection, int events)
{
    // The socket does not become readable for bytes that were read ahead. The loop's next iteration reads these bytes.
    if ((events & UV_READABLE) != 0 && connection->stream.bytes_ahead > 0) {
        events |= UV_WRITABLE;
    }
    if (connection->watched == events) {
        return;
    }
    connection->watched = events;
    if (events == 0) {
        uv_poll_stop(&connection->poll);
    } else {
        uv_poll_start(&connection->poll, events, on_poll);
    }
}

// Watches the socket if the stream must wait for it. Returns whether the stream must wait.
static bool waits_for(struct tern_connection *connection, enum tern_stream_status status)
{
    const bool reads = status == TERN_STREAM_WANT_READ;
    const bool waits = reads || status == TERN_STREAM_WANT_WRITE;
    if (waits) {
        watch(connection, reads ? UV_READABLE : UV_WRITABLE);
    }
    return waits;
}

// Returns the time of the clock that all deadlines use.
static uint64_t now_ms(const struct tern_connection_group *group)
{
    uint64_t (*monotonic_ms)(void) = group->shared->monotonic_ms;
    return monotonic_ms != NULL ? monotonic_ms() : uv_now(group->uv);
}

// limit_ms: time until the deadline; 0 = no deadline.
static void set_state(struct tern_connection *connection, enum state state, uint64_t limit_ms)
{
    connection->state = state;
    connection->deadline = limit_ms == 0 ? 0 : now_ms(connection->group) + limit_ms;
}

static void begin_reading(struct tern_connection *connection)
{
    connection->reading_ms = now_ms(connection->group);
    set_state(connection, STATE_READING, connection->group->limits.request_ms);
}

// --- Handshake slots

// Returns the ticket's client, or 0 if the handler no longer admits this client, as after a revocation.
static uint64_t admitted_client(const struct tern_connection *connection, uint64_t client)
{
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    const bool is_admitted = client == 0 || handler->admits_client == NULL ||
                             handler->admits_client(handler->ctx, client);
    return is_admitted ? client : 0;
}

// Copies the bytes that have arrived, at most `size`, and leaves them unread. Returns their number.
static size_t peek(const struct tern_connection *connection, uint8_t *dst, size_t size)
{
    const ssize_t len = recv(connection->stream.fd, dst, size, MSG_PEEK | MSG_DONTWAIT);
    return len > 0 ? (size_t)len : 0;
}

// Recognises the client by the ticket in the ClientHello, if the ClientHello has arrived completely.
static void recognise(struct tern_connection *connection)
{
    const struct tern_server_shared *shared = connection->group->shared;
    uint8_t hello[TERN_CLIENT_HELLO_MAX];
    if (shared->known_tickets == NULL || connection->recognised != 0) {
        return;
    }
    const size_t len = peek(connection, hello, sizeof hello);
    connection->recognised =
        admitted_client(connection, tern_known_tickets_offered(shared->known_tickets, hello, len));
    if (connection->recognised != 0) {
        tern_admission_recognise(shared->admission, &connection->place, connection->recognised);
    }
}

// Returns the key of the client's handshake slots. It differs from every peer's address: byte 8 of an address is 0,
// both for a /64 network and for a mapped IPv4 address.
static struct tern_address client_slot_key(uint64_t client)
{
    struct tern_address address = {{0}};
    tern_put_le64(address.bytes, client);
    address.bytes[8] = 1;
    return address;
}

static bool take_slot_at(struct tern_connection *connection, const struct tern_address *key)
{
    struct tern_connection_group *group = connection->group;
    connection->slot_key = *key;
    return tern_handshakes_take_slot(&group->handshakes, key, now_ms(group));
}

// Takes a handshake slot. A recognised client has separate slots, which strangers behind the same address cannot take.
static bool take_slot(struct tern_connection *connection)
{
    recognise(connection);
    if (connection->recognised != 0) {
        const struct tern_address key = client_slot_key(connection->recognised);
        if (take_slot_at(connection, &key)) {
            return true;
        }
    }
    return take_slot_at(connection, &connection->place.address);
}

static void start_handshake(struct tern_connection *connection)
{
    tern_admission_touch(connection->group->shared->admission, &connection->place);
    set_state(connection, STATE_HANDSHAKE, connection->group->limits.handshake_ms);
    watch(connection, UV_READABLE);
}

static uint64_t now_us(const struct tern_connection_group *group)
{
    return now_ms(group) * MS;
}

static void use_spare_time(uv_timer_t *timer);

static void await_spare_time(struct tern_connection_group *group)
{
    if (group->deferred_count == 0 || uv_is_active((const uv_handle_t *)&group->spare)) {
        return;
    }
    const uint64_t now = now_us(group);
    const uint64_t wait_ms = group->spare_from_us > now ? (group->spare_from_us - now) / MS : 0;
    (void)uv_timer_start(&group->spare, use_spare_time, wait_ms + 1, 0);
}

static void defer(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    const uint64_t soon = now_us(group) + MS;
    if (group->deferred_count++ == 0 && group->spare_from_us < soon) {
        group->spare_from_us = soon; // unused spare time is lost
    }
    TAILQ_INSERT_HEAD(&group->deferred, connection, deferred);
    group->shared->counters.handshakes_deferred++;
    await_spare_time(group);
}

static void leave_deferred(struct tern_connection *connection)
{
    TAILQ_REMOVE(&connection->group->deferred, connection, deferred);
    connection->group->deferred_count--;
}

// Begins the handshake of a readable socket, or defers it until a slot is free. The newest connection is first in the
// queue, because in a flood the admission displaces the oldest connections next.
static enum step begin_handshake(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    if (take_slot(connection)) {
        start_handshake(connection);
        return STEP_ON;
    }
    set_state(connection, STATE_DEFERRED, group->limits.handshake_ms);
    watch(connection, UV_DISCONNECT);
    defer(connection);
    return STEP_WAIT;
}

// Begins a deferred handshake. The loop reads the ClientHello, which has arrived, in its next iteration.
static void start_deferred(struct tern_connection *connection)
{
    leave_deferred(connection);
    start_handshake(connection);
}

// Returns a random deferred connection, so that no peer can time its ClientHellos to be chosen more often.
static struct tern_connection *random_deferred(const struct tern_connection_group *group)
{
    uint32_t number = 0;
    const enum tern_result ignored = tern_random_fill(&number, sizeof number);
    (void)ignored;
    struct tern_connection *connection = TAILQ_FIRST(&group->deferred);
    for (number %= group->deferred_count; number > 0; number--) {
        connection = TAILQ_NEXT(connection, deferred);
    }
    return connection;
}

// Begins one deferred handshake if the loop has spare time.
static void use_spare_time(uv_timer_t *timer)
{
    struct tern_connection_group *group = timer->data;
    const uint64_t now = now_us(group);
    if (group->deferred_count > 0 && now >= group->spare_from_us) {
        struct tern_connection *connection = random_deferred(group);
        group->spare_from_us = now;
        connection->is_spare = true;
        start_deferred(connection);
    }
    await_spare_time(group);
}

// Charges the time of a handshake without a slot to the loop's spare time.
static void charge_spare_time(const struct tern_connection *connection, uint64_t nanoseconds)
{
    if (connection->is_spare) {
        connection->group->spare_from_us += nanoseconds / 1000 * SPARE_PARTS;
    }
}

// Frees the slot of a successful handshake, and gives the slot to the next deferred connection with the same key.
static void free_slot(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    if (connection->is_spare) {
        return;
    }
    tern_handshakes_free_slot(&group->handshakes, &connection->slot_key, now_ms(group));
    struct tern_connection *next = TAILQ_FIRST(&group->deferred);
    while (next != NULL &&
           memcmp(&next->slot_key, &connection->slot_key, sizeof next->slot_key) != 0) {
        next = TAILQ_NEXT(next, deferred);
    }
    if (next != NULL && take_slot(next)) {
        start_deferred(next);
    }
}

// Begins the deferred handshakes for which a slot is free.
static void start_deferred_with_slots(struct tern_connection_group *group)
{
    struct tern_connection *connection = TAILQ_FIRST(&group->deferred);
    while (connection != NULL) {
        struct tern_connection *next = TAILQ_NEXT(connection, deferred);
        if (take_slot(connection)) {
            start_deferred(connection);
        }
        connection = next;
    }
}

// Leaves the queue of deferred handshakes, or frees the slot of a handshake that ends before the server's first answer,
// since such a handshake has cost nothing.
static void leave_handshake(struct tern_connection *connection)
{
    if (connection->state == STATE_HANDSHAKE && connection->stream.bytes_sent == 0) {
        free_slot(connection);
    } else if (connection->state == STATE_DEFERRED) {
        leave_deferred(connection);
    }
}

// Marks the connection as authenticated (tern_http_permit.known), and records that its ticket belongs to the client.
static void authenticate(struct tern_connection *connection, uint64_t client)
{
    const struct tern_server_shared *shared = connection->group->shared;
    const uint64_t ticket = tern_stream_peer(&connection->stream).ticket;
    tern_admission_authenticate(shared->admission, &connection->place, client);
    if (ticket != 0 && client != 0) {
        tern_known_tickets_record(shared->known_tickets, ticket, client);
    }
}

// Makes later connections with this ticket strangers, because the credentials of its client were refused, as after a
// revocation.
static void forget_ticket(struct tern_connection *connection)
{
    struct tern_known_tickets *tickets = connection->group->shared->known_tickets;
    const uint64_t ticket = tern_stream_peer(&connection->stream).ticket;
    if (ticket != 0 && tern_known_tickets_client(tickets, ticket) != 0) {
        tern_known_tickets_record(tickets, ticket, 0);
    }
}

// --- End

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

// Reports the last bytes of the connection, under the tag of an unfinished request or reply if there is one.
static void meter_end(struct tern_connection *connection)
{
    struct meter *metering = &connection->meter;
    if (connection->exchange != NULL) {
        struct tern_http_tag tag = tag_of(connection->exchange);
        tag.payload_down = 0;
        tern_http_tag_clear_cache(&tag);
        metering->tag = tag.client != 0 ? tag : metering->tag;
    } else if (connection->state == STATE_READING &&
               tern_reader_state(connection->reader)->tag.client != 0) {
        metering->tag = tern_reader_state(connection->reader)->tag;
    } else if (connection->state == STATE_WRITING && connection->replies) {
        uint64_t sent = tern_reply_body_sent(&connection->out);
        metering->tag = connection->tag;
        metering->tag.payload_down =
            sent < connection->tag.payload_down ? sent : connection->tag.payload_down;
        tern_http_tag_clear_cache(&metering->tag);
    }
    meter_close(metering, &connection->stream);
}

// Closes the connection at once. on_closed() frees the memory when libuv has closed the handle.
static void destroy(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    leave_handshake(connection);
    tern_stream_shut(&connection->stream, false);
    meter_end(connection);
    if (connection->exchange != NULL) {
        connection->exchange->connection = NULL;
    }
    tern_reader_free(connection->reader);
    tern_reply_clear(&connection->out);
    free(connection->input);
    free(connection->proxy);
    LIST_REMOVE(connection, open);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    tern_stream_close(&connection->stream);
    tern_admission_leave(group->shared->admission, &connection->place);
    group->on_gone(group);
}

static enum step end_connection(struct tern_connection *connection)
{
    destroy(connection);
    return STEP_GONE;
}

// Closes this side first: sends the closing alert and FIN, then discards what the peer still sends.
static enum step begin_drain(struct tern_connection *connection)
{
    tern_stream_shut(&connection->stream, true);
    if (connection->group->stopping) {
        return end_connection(connection);
    }
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    free(connection->input);
    connection->input = NULL;
    set_state(connection, STATE_DRAINING, DRAIN_MS);
    return STEP_ON;
}

// Makes the kernel delay TCP acknowledgements, so that the reply can carry them. The kernel resets this option when it
// sends an acknowledgement alone, so the option is set before each request.
static void delay_acknowledgements(const struct tern_connection *connection)
{
    int off = 0;
    if (connection->group->is_tcp) {
        (void)setsockopt(connection->stream.fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
    }
}

// Waits for the next request on the same connection.
static enum step await_request(struct tern_connection *connection)
{
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    connection->continued = false;
    if (connection->group->stopping) {
        return begin_drain(connection);
    }
    delay_acknowledgements(connection);
    tern_admission_touch(connection->group->shared->admission, &connection->place);
    set_state(connection, STATE_IDLE, connection->group->limits.idle_ms);
    if (connection->input != NULL) {
        return STEP_ON;
    }
    watch(connection, UV_READABLE); // an immediate read would rarely find bytes
    return STEP_WAIT;
}

// Waits for the handshake, or without TLS for the first request. Called once the peer's address is known.
static enum step begin_connection(struct tern_connection *connection)
{
    const struct tern_connection_group *group = connection->group;
    if (group->tls == NULL) {
        meter_handshake(&connection->meter, &connection->stream);
        return await_request(connection);
    }
    recognise(connection); // a recognised connection is not displaced by newcomers of its address
    set_state(connection, STATE_ARRIVING, group->limits.handshake_ms);
    watch(connection, UV_READABLE);
    return STEP_WAIT;
}

// --- Behind a proxy

// Prints the IPv4 or IPv6 address without the port; "unix" for other families.
static void print_address(const struct sockaddr_storage *name, char text[INET6_ADDRSTRLEN])
{
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
        inet_ntop(AF_INET, &v4->sin_addr, text, INET6_ADDRSTRLEN);
    } else if (name->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)name)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
        inet_ntop(mapped ? AF_INET : AF_INET6, v6->s6_addr + (mapped ? 12 : 0), text,
                  INET6_ADDRSTRLEN);
    } else {
        memcpy(text, "unix", 5);
    }
}

static void set_peer(struct tern_connection *connection, const struct sockaddr_storage *name)
{
    print_address(name, connection->peer);
    connection->peer_is_cache = tern_networks_contain(&connection->group->shared->caches, name);
}

#define LOG_PAUSE_MS                                                                               \
    1000u // least time between two log lines about PROXY headers, which limits the log's size

static void log_refusal(struct tern_connection *connection, const char *why)
{
    struct tern_server_shared *shared = connection->group->shared;
    const uint64_t now = now_ms(connection->group);
    uint64_t last = atomic_load(&shared->proxy_logged_ms);
    if ((last == 0 || now - last >= LOG_PAUSE_MS) &&
        atomic_compare_exchange_strong(&shared->proxy_logged_ms, &last, now)) {
        tern_log(TERN_LOG_WARN, "proxy-header",
                 "proxy=%s why=%s advice=\"server.proxy_from lists this address: configure the "
                 "proxy to send the PROXY protocol header, or remove the address\"",
                 connection->peer, TERN_LOG_TEXT(why));
    }
}

static enum step refuse_proxied(struct tern_connection *connection, const char *why)
{
    connection->group->shared->counters.connections_refused++;
    if (why != NULL) {
        log_refusal(connection, why);
    }
    return end_connection(connection);
}

// Assigns the connection to the client whose address the PROXY header contains; the limits then use this address.
static enum step apply_proxied_address(struct tern_connection *connection,
                                       const struct sockaddr_storage *peer)
{
    free(connection->proxy);
    connection->proxy = NULL;
    if (peer->ss_family != AF_UNSPEC) {
        set_peer(connection, peer);
        if (!tern_admission_move(connection->group->shared->admission, &connection->place, peer)) {
            return refuse_proxied(connection, NULL);
        }
    }
    return begin_connection(connection);
}

// Reads bytes of the PROXY header. False: no bytes have arrived; *step is the result of the connection's step.
static bool receive_header(struct tern_connection *connection, size_t wants, enum step *step)
{
    struct tern_proxy_header *header = connection->proxy;
    const ssize_t len = recv(connection->stream.fd, header->bytes + header->len, wants, 0);
    if (len > 0) {
        header->len += (size_t)len;
        return true;
    }
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        watch(connection, UV_READABLE);
        *step = STEP_WAIT;
    } else {
        // A proxy's health check opens a connection and closes it without a header; this is not logged.
        *step = refuse_proxied(
            connection, header->len == 0 ? NULL : "the connection ended within the PROXY header");
    }
    return false;
}

static enum step step_proxied(struct tern_connection *connection)
{
    struct sockaddr_storage peer;
    const char *why = "";
    enum step step = STEP_ON;
    while (receive_header(connection, tern_proxy_header_wants(connection->proxy), &step)) {
        const enum tern_result result = tern_proxy_header_parse(connection->proxy, &peer, &why);
        if (result != TERN_AGAIN) {
            return result == TERN_OK ? apply_proxied_address(connection, &peer)
                                     : refuse_proxied(connection, why);
        }
    }
    return step;
}

// --- Writing

// Calls handler->on_answered for the reader's request and the reply in connection->out. reader: may be NULL.
static void report_answer(struct tern_connection *connection,
                          const struct tern_request_reader *reader)
{
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    if (handler->on_answered == NULL || reader == NULL) {
        return;
    }
    const struct tern_http_answered answered = {
        .request = tern_reader_request(reader),
        .client = connection->tag.client != 0 ? connection->tag.client
                                              : tern_reader_state(reader)->client,
        .status = connection->out.status,
        .received = tern_reader_state(reader)->received,
        .sends = connection->out.body_len,
        .ms = now_ms(connection->group) - connection->reading_ms,
    };
    handler->on_answered(handler->ctx, &answered);
}

// Begins to send connection->out.
static enum step begin_write(struct tern_connection *connection, enum after_reply after)
{
    connection->after = after;
    set_state(connection, STATE_WRITING, connection->group->limits.write_ms);
    return STEP_ON;
}

static struct tern_stream_parts parts_left(const struct tern_reply_out *out)
{
    size_t head_sent = out->sent < out->head_len ? out->sent : out->head_len;
    size_t sent = tern_reply_body_sent(out);
    return (struct tern_stream_parts){
        .a = (const uint8_t *)out->head + head_sent,
        .a_len = out->head_len - head_sent,
        .b = out->body != NULL ? out->body + sent : NULL,
        .b_len = out->body_len - sent,
    };
}

static enum step end_write(struct tern_connection *connection)
{
    tern_reply_clear(&connection->out);
    if (connection->replies) {
        connection->replies = false;
        meter_exchange(&connection->meter, &connection->stream, &connection->tag);
    }
    if (connection->after == AFTER_BODY) {
        begin_reading(connection);
        return STEP_ON;
    }
    return connection->after == AFTER_CLOSE ? begin_drain(connection) : await_request(connection);
}

static enum step wait_to_write(struct tern_connection *connection, uint64_t progress_before)
{
    if (connection->stream.bytes_sent != progress_before) {
        set_state(connection, STATE_WRITING, connection->group->limits.write_ms);
    }
    watch(connection, UV_WRITABLE);
    return STEP_WAIT;
}

static enum step step_write(struct tern_connection *connection)
{
    struct tern_reply_out *out = &connection->out;
    uint64_t progress = connection->stream.bytes_sent;
    while (out->sent < out->head_len + out->body_len) {
        struct tern_stream_parts parts = parts_left(out);
        size_t len = 0;
        enum tern_stream_status status =
            tern_stream_write(&connection->stream, &parts, connection->group->write_buffer, &len);
        if (status == TERN_STREAM_WANT_WRITE) {
            return wait_to_write(connection, progress);
        }
        if (status != TERN_STREAM_DONE) {
            return end_connection(connection);
        }
        tern_reply_sent(out, len);
        connection->meter.http_down += len;
    }
    return end_write(connection);
}

// --- Reading

// Extends the deadline by every received byte, so that a long body can arrive over a slow link.
static void extend_reading(struct tern_connection *connection)
{
    const struct tern_http_limits *limits = &connection->group->limits;
    uint64_t body = tern_reader_state(connection->reader)->received;
    connection->deadline =
        connection->reading_ms + limits->request_ms + body * 1000 / limits->min_rate;
}

static int admit_request(void *ctx, const struct tern_http_request *request,
                         uint64_t content_length, struct tern_http_permit *permit)
{
    struct tern_connection *connection = ctx;
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    const int status = handler->on_headers != NULL
                           ? handler->on_headers(handler->ctx, request, content_length, permit)
                           : 0;
    if (permit->known) {
        authenticate(connection, permit->client);
    } else if (status == 401) {
        forget_ticket(connection);
    }
    return status;
}

static bool begin_request(struct tern_connection *connection)
{
    const struct tern_http_limits *limits = &connection->group->limits;
    struct tern_reader_config config = {
        .header_bytes = limits->header_bytes,
        .body_bytes = limits->body_bytes,
        .uploads = connection->group->shared->uploads,
        .id = ++connection->group->shared->request_ids,
        .peer = connection->peer,
        .address = connection->place.address,
        .peer_is_cache = connection->peer_is_cache,
        .psk_client = tern_stream_peer(&connection->stream).client,
        .certificate = tern_stream_peer(&connection->stream).certificate,
        .user_header = connection->group->shared->user_header,
        .groups_header = connection->group->shared->groups_header,
        .admit = admit_request,
        .ctx = connection,
        .on_dropped = connection->group->shared->handler.on_dropped,
        .dropped_ctx = connection->group->shared->handler.ctx,
    };
    connection->reader = tern_reader_new(&config);
    begin_reading(connection);
    return connection->reader != NULL;
}

// Refuses the request without the handler. Its bytes are reported under the tag that the handler set in on_headers, or
// under no client.
static enum step refuse_request(struct tern_connection *connection, int status,
                                enum after_reply after)
{
    const struct tern_request_reader *reader = connection->reader;
    const bool is_readers = reader != NULL && tern_reader_state(reader)->status == status;
    struct tern_http_reply reply =
        tern_reply_refusal(&connection->group->shared->handler,
                           reader != NULL ? tern_reader_request(reader)->path : "/", status,
                           is_readers ? tern_reader_state(reader)->refusal : TERN_OK,
                           is_readers ? tern_reader_state(reader)->sentence : NULL);
    struct tern_reply_shape shape = {.closes = after == AFTER_CLOSE};
    connection->tag = (struct tern_http_tag){0};
    if (reader != NULL) {
        connection->tag = tern_reader_state(reader)->tag;
        shape.head_only = strcmp(tern_reader_request(reader)->method, "HEAD") == 0;
    }
    tern_reply_write(&reply, shape, &connection->out);
    report_answer(connection, reader);
    connection->group->shared->counters.requests_refused++;
    connection->replies = true;
    return begin_write(connection, after);
}

// Passes a complete request to the handler.
static enum step dispatch(struct tern_connection *connection)
{
    const struct tern_connection_group *group = connection->group;
    connection->exchange = new_exchange(group->mailbox, connection->reader, connection);
    if (connection->exchange == NULL) {
        return refuse_request(connection, 503, AFTER_CLOSE);
    }
    connection->reader = NULL;
    group->shared->counters.requests++;
    tern_admission_busy(group->shared->admission, &connection->place);
    set_state(connection, STATE_PENDING, 0);
    group->shared->handler.on_request(group->shared->handler.ctx, connection->exchange);
    return STEP_WAIT;
}

// Waits for the rest of the request; sends "100 Continue" if the peer expects this response.
static enum step await_rest(struct tern_connection *connection)
{
    const struct tern_reader_state *state = tern_reader_state(connection->reader);
    extend_reading(connection);
    if (connection->continued || !state->has_head || !state->expects_continue ||
        state->status != 0) {
        return STEP_ON;
    }
    connection->continued = true;
    tern_reply_write(&(struct tern_http_reply){.status = 100}, (struct tern_reply_shape){0},
                     &connection->out);
    return begin_write(connection, AFTER_BODY);
}

static enum step keep_input(struct tern_connection *connection, const uint8_t *data, size_t len)
{
    if (len == 0) {
        return STEP_ON;
    }
    connection->input = malloc(len);
    if (connection->input == NULL) {
        return STEP_GONE;
    }
    memcpy(connection->input, data, len);
    connection->input_len = len;
    return STEP_ON;
}

// Passes the bytes of one read to the present request, and stores the bytes after the request's end in
// connection->input.
static enum step consume(struct tern_connection *connection, const uint8_t *data, size_t len)
{
    size_t used = 0;
    if (connection->reader == NULL && !begin_request(connection)) {
        return refuse_request(connection, 503, AFTER_CLOSE);
    }
    enum tern_result result = tern_reader_feed(connection->reader, data, len, &used);
    connection->meter.http_up += used;
    // The input is stored before dispatch(), because the handler may reply before on_request() returns.
    if (keep_input(connection, data + used, len - used) == STEP_GONE) {
        return end_connection(connection);
    }
    const struct tern_reader_state *state = tern_reader_state(connection->reader);
    if (result == TERN_AGAIN) {
        return await_rest(connection);
    }
    if (result != TERN_OK) {
        return refuse_request(connection, state->status,
                              state->discards ? AFTER_BODY : AFTER_CLOSE);
    }
    // The reply to a refused request was sent already; its body was discarded.
    return state->status != 0 ? await_request(connection) : dispatch(connection);
}

static enum step consume_input(struct tern_connection *connection)
{
    uint8_t *data = connection->input;
    connection->input = NULL;
    enum step step = consume(connection, data, connection->input_len);
    free(data);
    return step;
}

static enum step step_read(struct tern_connection *connection)
{
    const bool may_read = connection->reads_remaining-- > 0;
    if (connection->input != NULL && !may_read) {
        watch(connection, UV_WRITABLE); // continue in the loop's next iteration
        return STEP_WAIT;
    }
    if (connection->input != NULL) {
        return consume_input(connection);
    }
    if (!may_read) {
        watch(connection, UV_READABLE);
        return STEP_WAIT;
    }
    uint8_t *buffer = connection->group->read_buffer;
    size_t len = 0;
    const enum tern_stream_status status =
        tern_stream_read(&connection->stream, buffer, TERN_TLS_RECORD_MAX, &len);
    if (status != TERN_STREAM_DONE) {
        return waits_for(connection, status) ? STEP_WAIT : end_connection(connection);
    }
    if (connection->stream.bytes_ahead == 0) {
        watch(connection, UV_READABLE); // with bytes ahead the next read follows at once
    }
    return consume(connection, buffer, len);
}

// --- Draining

static enum step step_drain(struct tern_connection *connection)
{
    size_t len = 0;
    enum tern_stream_status status = tern_stream_read(
        &connection->stream, connection->group->read_buffer, TERN_TLS_RECORD_MAX, &len);
    connection->drained += len;
    if (waits_for(connection, status)) {
        return STEP_WAIT;
    }
    const bool continues = status == TERN_STREAM_DONE && connection->drained <= DRAIN_BYTES;
    return continues ? STEP_ON : end_connection(connection);
}

// --- Handshake

// Returns the client of the pre-shared key, or of the ticket: a completed handshake with a ticket proves that the peer
// owns the session in which the client showed its token. 0 = none.
static uint64_t proven_client(const struct tern_connection *connection)
{
    const struct tern_stream_peer peer = tern_stream_peer(&connection->stream);
    struct tern_known_tickets *tickets = connection->group->shared->known_tickets;
    if (peer.client != 0 || !peer.resumed || tickets == NULL) {
        return peer.client;
    }
    return admitted_client(connection, tern_known_tickets_client(tickets, peer.ticket));
}

static enum step end_handshake(struct tern_connection *connection)
{
    struct tern_server_counters *counters = &connection->group->shared->counters;
    const bool resumed = tern_stream_peer(&connection->stream).resumed;
    *(resumed ? &counters->handshakes_resumed : &counters->handshakes_full) += 1;
    free_slot(connection);
    meter_handshake(&connection->meter, &connection->stream);
    const uint64_t client = proven_client(connection);
    if (client != 0) {
        authenticate(connection, client);
    } else {
        tern_admission_unrecognise(connection->group->shared->admission, &connection->place);
    }
    return await_request(connection);
}

static void count_failed(const struct tern_connection *connection)
{
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    struct tern_server_counters *counters = &connection->group->shared->counters;
    const char *why = tern_stream_peer(&connection->stream).refusal;
    counters->handshakes_failed++;
    counters->client_certificates_refused += why[0] != '\0';
    if (handler->on_handshake_failed != NULL) {
        handler->on_handshake_failed(handler->ctx, connection->peer, why);
    }
}

// Returns the thread's processor time, so that a busy machine does not make handshakes look expensive.
static uint64_t thread_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static enum step step_handshake(struct tern_connection *connection)
{
    const uint64_t begin = thread_time_ns();
    const enum tern_stream_status status = tern_stream_handshake(&connection->stream);
    charge_spare_time(connection, thread_time_ns() - begin);
    if (status == TERN_STREAM_DONE) {
        return end_handshake(connection);
    }
    if (waits_for(connection, status)) {
        return STEP_WAIT;
    }
    count_failed(connection);
    return end_connection(connection);
}

// --- Driving

static enum step run(struct tern_connection *connection)
{
    enum step step = STEP_ON;
    while (step == STEP_ON) {
        switch (connection->state) {
        case STATE_PROXIED:
            step = step_proxied(connection);
            break;
        case STATE_ARRIVING:
            step = begin_handshake(connection);
            break;
        case STATE_HANDSHAKE:
            step = step_handshake(connection);
            break;
        case STATE_IDLE:
        case STATE_READING:
            step = step_read(connection);
            break;
        case STATE_WRITING:
            step = step_write(connection);
            break;
        case STATE_DRAINING:
            step = step_drain(connection);
            break;
        case STATE_DEFERRED:
        case STATE_PENDING:
            step = STEP_WAIT;
            break;
        }
    }
    return step;
}

// Reads nothing while the handler prepares the reply: pipelined requests wait in the kernel. A TLS peer that has closed
// cannot receive a reply; a peer without TLS may have closed only its sending side.
static void poll_pending(struct tern_connection *connection, int events)
{
    if ((events & UV_DISCONNECT) == 0) {
        watch(connection, UV_DISCONNECT);
    } else if (connection->stream.tls != NULL) {
        destroy(connection);
    } else {
        watch(connection, 0);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct tern_connection *connection = poll->data;
    if (status < 0) {
        // libuv stopped watching because of a socket error, which the next operation on the socket reports.
        connection->watched = 0;
        events = UV_DISCONNECT;
    }
    if (connection->state == STATE_PENDING) {
        poll_pending(connection, events);
        return;
    }
    if (connection->state == STATE_DEFERRED) {
        count_failed(connection);
        destroy(connection); // the peer has closed
        return;
    }
    connection->reads_remaining = READ_BATCH;
    (void)run(connection);
}

static bool open_stream(struct tern_connection *connection, int fd)
{
    const struct tern_connection_group *group = connection->group;
    if (tern_stream_open(&connection->stream, fd, group->is_tcp, group->tls) != TERN_OK) {
        return false;
    }
    if (uv_poll_init(group->uv, &connection->poll, fd) != 0) {
        tern_stream_close(&connection->stream);
        return false;
    }
    connection->poll.data = connection;
    return true;
}

// name: NULL for a proxy, whose own address has no limits. NULL: admission refuses the connection, or memory is short.
static struct tern_connection *enter(struct tern_connection_group *group,
                                     const struct sockaddr_storage *name)
{
    struct tern_connection *connection = calloc(1, sizeof *connection);
    const bool entered =
        connection != NULL &&
        tern_admission_enter(group->shared->admission, &group->places, name, &connection->place);
    if (!entered) {
        group->shared->counters.connections_refused++;
        free(connection);
        return NULL;
    }
    group->shared->counters.connections_accepted++;
    return connection;
}

static bool begin_proxied(struct tern_connection *connection)
{
    connection->proxy = calloc(1, sizeof *connection->proxy);
    set_state(connection, STATE_PROXIED, connection->group->limits.handshake_ms);
    return connection->proxy != NULL;
}

void tern_connection_open(struct tern_connection_group *group, int fd,
                          const struct sockaddr_storage *name)
{
    const bool proxied = tern_networks_contain(&group->shared->proxies, name);
    struct tern_connection *connection = enter(group, proxied ? NULL : name);
    if (connection == NULL) {
        close(fd);
        return;
    }
    connection->group = group;
    connection->meter.handler = &group->shared->handler;
    set_peer(connection, name);
    const bool ready = !proxied || begin_proxied(connection);
    if (!ready) {
        close(fd);
    }
    if (!ready || !open_stream(connection, fd)) {
        tern_admission_leave(group->shared->admission, &connection->place);
        free(connection->proxy);
        free(connection);
        return;
    }
    LIST_INSERT_HEAD(&group->open, connection, open);
    connection->reads_remaining = READ_BATCH;
    if (proxied || begin_connection(connection) == STEP_ON) {
        (void)run(connection);
    }
}

static void expire(struct tern_connection *connection)
{
    const enum state state = connection->state;
    if (state != STATE_DRAINING && state != STATE_IDLE) {
        connection->group->shared->counters.timeouts++;
    }
    if (state == STATE_IDLE) {
        if (begin_drain(connection) != STEP_GONE) {
            (void)run(connection);
        }
    } else if (state == STATE_READING && tern_reader_state(connection->reader)->status == 0) {
        (void)refuse_request(connection, 408, AFTER_CLOSE);
        (void)run(connection);
    } else { // the reply to a refused request was sent already
        destroy(connection);
    }
}

static void for_each(struct tern_connection_group *group, void (*act)(struct tern_connection *))
{
    struct tern_connection *connection = LIST_FIRST(&group->open);
    while (connection != NULL) {
        struct tern_connection *next = LIST_NEXT(connection, open);
        act(connection);
        connection = next;
    }
}

static void expire_if_due(struct tern_connection *connection)
{
    if (connection->deadline != 0 && now_ms(connection->group) >= connection->deadline) {
        expire(connection);
    }
}

uint64_t tern_connections_expire(struct tern_connection_group *group)
{
    for_each(group, expire_if_due);
    start_deferred_with_slots(group);
    tern_handshakes_sweep(&group->handshakes, now_ms(group));
    return now_ms(group);
}

void tern_connections_end_displaced(struct tern_connection_group *group)
{
    struct tern_admission *admission = group->shared->admission;
    struct tern_place *place = tern_admission_displaced(admission, &group->places);
    while (place != NULL) {
        group->shared->counters.connections_displaced++;
        destroy((struct tern_connection *)place);
        place = tern_admission_displaced(admission, &group->places);
    }
}

static void end_if_idle(struct tern_connection *connection)
{
    const enum state state = connection->state;
    const bool receives_body = state == STATE_READING && connection->reader != NULL &&
                               tern_reader_state(connection->reader)->has_head;
    if (state == STATE_IDLE) {
        (void)begin_drain(connection);
    } else if (state != STATE_PENDING && state != STATE_WRITING && !receives_body) {
        destroy(connection);
    }
}

void tern_connections_end(struct tern_connection_group *group, bool only_idle)
{
    for_each(group, only_idle ? end_if_idle : destroy);
}

static void send_reply(struct tern_connection *connection, struct tern_http_exchange *exchange)
{
    const struct tern_request_reader *reader = exchange->reader;
    bool closes = !tern_reader_state(reader)->keeps_alive || connection->group->stopping ||
                  exchange->reply.closes;
    struct tern_reply_shape shape = {
        .closes = closes,
        .head_only = strcmp(tern_reader_request(reader)->method, "HEAD") == 0,
    };
    connection->tag = exchange->tag;
    connection->replies = true;
    connection->exchange = NULL;
    tern_reply_write(&exchange->reply, shape, &connection->out);
    report_answer(connection, reader);
    free_exchange(exchange);
    tern_admission_touch(connection->group->shared->admission, &connection->place);
    connection->reads_remaining = READ_BATCH;
    (void)begin_write(connection, closes ? AFTER_CLOSE : AFTER_NEXT);
    (void)run(connection);
}

void tern_connections_deliver(struct tern_connection_group *group)
{
    struct tern_http_exchange *exchange =
        group->mailbox != NULL ? take_replies(group->mailbox) : NULL;
    while (exchange != NULL) {
        struct tern_http_exchange *next = exchange->next;
        if (exchange->connection != NULL) {
            send_reply(exchange->connection, exchange);
        } else {
            drop_exchange(exchange);
        }
        exchange = next;
    }
    if (group->mailbox != NULL && has_replies(group->mailbox)) {
        uv_async_send(group->wake);
    }
}

// --- Group

// Wakes the loop of this group, because another loop has displaced one of the group's connections.
static void wake_loop(void *ctx)
{
    uv_async_send(ctx);
}

bool tern_connections_init(struct tern_connection_group *group, uv_loop_t *uv, uv_async_t *wake)
{
    group->uv = uv;
    group->wake = wake;
    TAILQ_INIT(&group->places.displaced);
    group->places.wake = wake_loop;
    group->places.ctx = wake;
    TAILQ_INIT(&group->deferred);
    LIST_INIT(&group->open);
    group->spare.data = group;
    group->mailbox = new_mailbox(wake);
    return group->mailbox != NULL && uv_timer_init(uv, &group->spare) == 0;
}

void tern_connections_close(struct tern_connection_group *group)
{
    if (group->mailbox != NULL) {
        close_mailbox(group->mailbox);
        group->mailbox = NULL;
    }
}
