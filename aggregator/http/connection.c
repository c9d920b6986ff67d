// A connection is in one state, which says what its socket is watched for and what its deadline
// means. run() takes steps until the socket, or the handler, makes it wait.
#include "http/connection.h"
#include "http/metering.h"
#include "http/reply_writer.h"
#include "http/stream.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Reads per event, so that one fast peer does not starve the others.
#define READ_BATCH 8

// How long and how much a peer may still send after we said goodbye. Closing at once would make the
// kernel reset the connection and the reply with it.
#define DRAIN_MS 5000u
#define DRAIN_BYTES (1u << 20)

#define STATE_LIST(X)                                                                              \
    X(HANDSHAKE) /* deadline: handshake_ms from accept */                                          \
    X(IDLE)      /* between requests; deadline: idle_ms */                                         \
    X(READING)   /* in a request; deadline: request_ms from its first byte, and min_rate on top */ \
    X(PENDING)   /* the handler has the exchange; no deadline */                                   \
    X(WRITING)   /* a reply is going out; deadline: write_ms without progress */                   \
    X(DRAINING)  /* we said goodbye; deadline: DRAIN_MS */

enum state {
#define STATE_ENUM(name) STATE_##name,
    STATE_LIST(STATE_ENUM)
#undef STATE_ENUM
};

// What follows when the reply is out.
enum after { AFTER_NEXT, AFTER_BODY, AFTER_CLOSE };

// What a step came to. After STEP_GONE the connection must not be touched.
enum step { STEP_ON, STEP_WAIT, STEP_GONE };

struct tern_connection {
    struct tern_loop *loop;
    struct tern_connection *next;
    struct tern_connection **link; // the pointer that points here
    uv_poll_t poll;
    int watched; // uv_poll_event bits
    struct tern_stream stream;
    enum state state;
    uint64_t deadline; // in loop time; 0 = none
    uint64_t reading;  // since when, in loop time
    struct tern_request_reader *reader;
    struct tern_http_exchange *exchange;
    uint8_t *input; // bytes that came behind the present request: one read at most
    size_t input_len;
    int reads_left; // in this event
    bool continued; // "100 Continue" was sent for this request
    enum after after;
    bool replies; // the reply going out ends an exchange, which is metered
    struct tern_reply_out out;
    struct tern_http_tag tag; // of the reply going out
    size_t drained;
    struct tern_metering metering;
    struct tern_address address;
    char peer[INET6_ADDRSTRLEN];
};

static enum step run(struct tern_connection *connection);

// --- Watching ----------------------------------------------------------------------------------

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct tern_connection *connection, int events)
{
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

static void set_state(struct tern_connection *connection, enum state state, uint64_t limit_ms)
{
    connection->state = state;
    connection->deadline = limit_ms == 0 ? 0 : uv_now(&connection->loop->uv) + limit_ms;
}

static void begin_reading(struct tern_connection *connection)
{
    connection->reading = uv_now(&connection->loop->uv);
    set_state(connection, STATE_READING, connection->loop->shared->limits.request_ms);
}

// A long body over a slow link takes its time; what a peer gains by it, it pays for in bytes.
static void extend_reading(struct tern_connection *connection)
{
    const struct tern_http_limits *limits = &connection->loop->shared->limits;
    uint64_t body = tern_reader_request(connection->reader)->body_len;
    connection->deadline =
        connection->reading + limits->request_ms + body * 1000 / limits->min_rate;
}

// --- End ---------------------------------------------------------------------------------------

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

// Bytes of the reply's body that have been sent.
static size_t body_sent(const struct tern_reply_out *out)
{
    return out->sent > out->head_len ? out->sent - out->head_len : 0;
}

// What was under way when the connection ended counts for its own tag, as far as it got.
static void meter_end(struct tern_connection *connection)
{
    struct tern_metering *metering = &connection->metering;
    if (connection->exchange != NULL) {
        struct tern_http_tag tag = tern_exchange_tag(connection->exchange);
        tag.payload_down = 0;
        metering->tag = tag.client != 0 ? tag : metering->tag;
    } else if (connection->state == STATE_WRITING && connection->replies) {
        uint64_t sent = body_sent(&connection->out);
        metering->tag = connection->tag;
        metering->tag.payload_down =
            sent < connection->tag.payload_down ? sent : connection->tag.payload_down;
    }
    tern_metering_close(metering, &connection->stream);
}

static void unlink_connection(struct tern_connection *connection)
{
    *connection->link = connection->next;
    if (connection->next != NULL) {
        connection->next->link = connection->link;
    }
}

void tern_connection_destroy(struct tern_connection *connection)
{
    struct tern_loop *loop = connection->loop;
    tern_stream_shut(&connection->stream);
    meter_end(connection);
    if (connection->exchange != NULL) {
        connection->exchange->connection = NULL;
    }
    tern_reader_free(connection->reader);
    tern_reply_clear(&connection->out);
    free(connection->input);
    unlink_connection(connection);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    tern_stream_close(&connection->stream);
    tern_admission_leave(loop->shared->admission, &connection->address);
    tern_loop_forget(loop);
}

static enum step end(struct tern_connection *connection)
{
    tern_connection_destroy(connection);
    return STEP_GONE;
}

// The orderly end, when we are the first to close.
static enum step begin_drain(struct tern_connection *connection)
{
    tern_stream_finish(&connection->stream);
    if (connection->loop->stopping) {
        return end(connection);
    }
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    free(connection->input);
    connection->input = NULL;
    set_state(connection, STATE_DRAINING, DRAIN_MS);
    return STEP_ON;
}

static enum step step_drain(struct tern_connection *connection)
{
    struct tern_loop *loop = connection->loop;
    size_t len = 0;
    enum tern_stream_status status =
        tern_stream_discard(&connection->stream, loop->read_buffer, &len);
    connection->drained += len;
    if (status == TERN_STREAM_WANT_READ) {
        watch(connection, UV_READABLE);
        return STEP_WAIT;
    }
    bool goes_on = status == TERN_STREAM_DONE && connection->drained <= DRAIN_BYTES;
    return goes_on ? STEP_ON : end(connection);
}

// --- Writing -----------------------------------------------------------------------------------

static enum step begin_write(struct tern_connection *connection, enum after after)
{
    connection->after = after;
    set_state(connection, STATE_WRITING, connection->loop->shared->limits.write_ms);
    return STEP_ON;
}

static struct tern_stream_parts parts_left(const struct tern_reply_out *out)
{
    size_t head_sent = out->sent < out->head_len ? out->sent : out->head_len;
    size_t sent = body_sent(out);
    return (struct tern_stream_parts){
        .a = (const uint8_t *)out->head + head_sent,
        .a_len = out->head_len - head_sent,
        .b = out->body != NULL ? out->body + sent : NULL,
        .b_len = out->body_len - sent,
    };
}

static enum step next_request(struct tern_connection *connection)
{
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    connection->continued = false;
    set_state(connection, STATE_IDLE, connection->loop->shared->limits.idle_ms);
    return STEP_ON;
}

static enum step written(struct tern_connection *connection)
{
    tern_reply_clear(&connection->out);
    if (connection->replies) {
        connection->replies = false;
        tern_metering_exchange(&connection->metering, &connection->stream, &connection->tag);
    }
    switch (connection->after) {
    case AFTER_BODY:
        begin_reading(connection);
        return STEP_ON;
    case AFTER_CLOSE:
        return begin_drain(connection);
    case AFTER_NEXT:
        break;
    }
    return connection->loop->stopping ? begin_drain(connection) : next_request(connection);
}

static enum step wait_to_write(struct tern_connection *connection, uint64_t progress_before)
{
    if (tern_stream_progress(&connection->stream) != progress_before) {
        set_state(connection, STATE_WRITING, connection->loop->shared->limits.write_ms);
    }
    watch(connection, UV_WRITABLE);
    return STEP_WAIT;
}

static enum step step_write(struct tern_connection *connection)
{
    struct tern_reply_out *out = &connection->out;
    uint64_t progress = tern_stream_progress(&connection->stream);
    while (out->sent < out->head_len + out->body_len) {
        struct tern_stream_parts parts = parts_left(out);
        size_t len = 0;
        enum tern_stream_status status =
            tern_stream_write(&connection->stream, &parts, connection->loop->write_buffer, &len);
        if (status == TERN_STREAM_WANT_WRITE) {
            return wait_to_write(connection, progress);
        }
        if (status != TERN_STREAM_DONE) {
            return end(connection);
        }
        out->sent += len;
        connection->metering.http_down += len;
    }
    return written(connection);
}

// --- Requests ----------------------------------------------------------------------------------

static int admit(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 uint32_t *body_limit)
{
    const struct tern_connection *connection = ctx;
    const struct tern_http_handler *handler = &connection->loop->shared->handler;
    return handler->on_headers != NULL
               ? handler->on_headers(handler->ctx, request, content_length, body_limit)
               : 0;
}

static bool begin_request(struct tern_connection *connection)
{
    const struct tern_http_limits *limits = &connection->loop->shared->limits;
    struct tern_reader_config config = {
        .header_bytes = limits->header_bytes,
        .body_bytes = limits->body_bytes,
        .peer = connection->peer,
        .address = connection->address,
        .psk_client = tern_stream_client(&connection->stream),
        .admit = admit,
        .ctx = connection,
    };
    connection->reader = tern_reader_new(&config);
    begin_reading(connection);
    return connection->reader != NULL;
}

// Answers without the handler. The exchange, if there was to be one, counts for nobody.
static enum step refuse(struct tern_connection *connection, int status, enum after after)
{
    struct tern_http_reply reply = tern_reply_refusal(status);
    struct tern_reply_shape shape = {.closes = after == AFTER_CLOSE};
    if (connection->reader != NULL) {
        shape.head_only = strcmp(tern_reader_request(connection->reader)->method, "HEAD") == 0;
    }
    tern_reply_write(&reply, shape, &connection->out);
    connection->loop->shared->counters.requests_refused++;
    connection->replies = true;
    connection->tag = (struct tern_http_tag){0};
    return begin_write(connection, after);
}

static enum step hand_over(struct tern_connection *connection)
{
    struct tern_loop *loop = connection->loop;
    connection->exchange = tern_exchange_new(loop->mailbox, connection->reader, connection);
    if (connection->exchange == NULL) {
        return refuse(connection, 503, AFTER_CLOSE);
    }
    connection->reader = NULL;
    loop->shared->counters.requests++;
    set_state(connection, STATE_PENDING, 0);
    loop->shared->handler.on_request(loop->shared->handler.ctx, connection->exchange);
    return STEP_WAIT;
}

// The request is complete: a refused one was only read to its end, and has had its reply.
static enum step complete(struct tern_connection *connection)
{
    return tern_reader_status(connection->reader) != 0 ? next_request(connection)
                                                       : hand_over(connection);
}

static enum step refused_by_reader(struct tern_connection *connection)
{
    bool stays = tern_reader_reusable(connection->reader);
    return refuse(connection, tern_reader_status(connection->reader),
                  stays ? AFTER_BODY : AFTER_CLOSE);
}

// All that came is taken, and the request goes on.
static enum step awaits_more(struct tern_connection *connection)
{
    extend_reading(connection);
    if (!tern_reader_waits(connection->reader) || connection->continued) {
        return STEP_ON;
    }
    connection->continued = true;
    tern_reply_write_continue(&connection->out);
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

// Feeds one read's bytes to the present request and keeps what lies behind it.
static enum step consume(struct tern_connection *connection, const uint8_t *data, size_t len)
{
    size_t used = 0;
    if (connection->reader == NULL && !begin_request(connection)) {
        return refuse(connection, 503, AFTER_CLOSE);
    }
    enum tern_result result = tern_reader_feed(connection->reader, data, len, &used);
    connection->metering.http_up += used;
    // Kept first: the handler's reply may come back before on_request returns.
    if (keep_input(connection, data + used, len - used) == STEP_GONE) {
        return end(connection);
    }
    switch ((int)result) {
    case TERN_OK:
        return complete(connection);
    case TERN_AGAIN:
        return awaits_more(connection);
    default:
        return refused_by_reader(connection);
    }
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
    if (connection->input != NULL) {
        return consume_input(connection);
    }
    watch(connection, UV_READABLE);
    if (connection->reads_left-- <= 0) {
        return STEP_WAIT;
    }
    uint8_t *buffer = connection->loop->read_buffer;
    size_t len = 0;
    switch (tern_stream_read(&connection->stream, buffer, TERN_TLS_RECORD_MAX, &len)) {
    case TERN_STREAM_DONE:
        return consume(connection, buffer, len);
    case TERN_STREAM_WANT_READ:
        return STEP_WAIT;
    case TERN_STREAM_WANT_WRITE:
        watch(connection, UV_WRITABLE);
        return STEP_WAIT;
    case TERN_STREAM_END:
    case TERN_STREAM_FAILED:
        break;
    }
    return end(connection);
}

// --- Handshake ---------------------------------------------------------------------------------

static enum step handshake_done(struct tern_connection *connection)
{
    struct tern_loop_counters *counters = &connection->loop->shared->counters;
    if (tern_tls_resumed(connection->stream.tls)) {
        counters->handshakes_resumed++;
    } else {
        counters->handshakes_full++;
    }
    tern_metering_handshake(&connection->metering, &connection->stream);
    return next_request(connection);
}

static enum step step_handshake(struct tern_connection *connection)
{
    switch (tern_tls_handshake(connection->stream.tls)) {
    case TERN_STREAM_DONE:
        return handshake_done(connection);
    case TERN_STREAM_WANT_READ:
        watch(connection, UV_READABLE);
        return STEP_WAIT;
    case TERN_STREAM_WANT_WRITE:
        watch(connection, UV_WRITABLE);
        return STEP_WAIT;
    case TERN_STREAM_END:
    case TERN_STREAM_FAILED:
        break;
    }
    connection->loop->shared->counters.handshakes_failed++;
    return end(connection);
}

// --- Driving -----------------------------------------------------------------------------------

static enum step run(struct tern_connection *connection)
{
    enum step step = STEP_ON;
    while (step == STEP_ON) {
        switch (connection->state) {
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
        case STATE_PENDING:
            step = STEP_WAIT;
            break;
        }
    }
    return step;
}

// While a reply is pending nothing is read, so that pipelined bytes wait in the kernel. The watch
// is only changed when something comes, which in a warm round is never. A TLS peer that has closed
// can no more take a reply; one in the clear may have closed its half only.
static void poll_pending(struct tern_connection *connection, int events)
{
    if ((events & UV_DISCONNECT) == 0) {
        watch(connection, UV_DISCONNECT);
    } else if (connection->stream.tls != NULL) {
        tern_connection_destroy(connection);
    } else {
        watch(connection, 0);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct tern_connection *connection = poll->data;
    if (status < 0) {
        // libuv has stopped watching: the socket is in error, which the next operation reports.
        connection->watched = 0;
        events = UV_DISCONNECT;
    }
    if (connection->state == STATE_PENDING) {
        poll_pending(connection, events);
        return;
    }
    connection->reads_left = READ_BATCH;
    (void)run(connection);
}

struct tern_connection *tern_connection_next(const struct tern_connection *connection)
{
    return connection->next;
}

static void link_connection(struct tern_connection *connection)
{
    struct tern_loop *loop = connection->loop;
    connection->next = loop->connections;
    connection->link = &loop->connections;
    if (connection->next != NULL) {
        connection->next->link = &connection->next;
    }
    loop->connections = connection;
}

static bool setup(struct tern_connection *connection, int fd)
{
    struct tern_loop *loop = connection->loop;
    if (tern_stream_open(&connection->stream, fd, loop->is_tcp, loop->tls) != TERN_OK) {
        return false;
    }
    if (uv_poll_init(&loop->uv, &connection->poll, fd) != 0) {
        tern_stream_close(&connection->stream);
        return false;
    }
    connection->poll.data = connection;
    return true;
}

void tern_connection_open(struct tern_loop *loop, int fd, const struct tern_address *address,
                          const char *peer)
{
    struct tern_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        close(fd);
        tern_admission_leave(loop->shared->admission, address);
        return;
    }
    connection->loop = loop;
    connection->address = *address;
    connection->metering.handler = &loop->shared->handler;
    memcpy(connection->peer, peer, strlen(peer) + 1);
    if (!setup(connection, fd)) {
        free(connection);
        tern_admission_leave(loop->shared->admission, address);
        return;
    }
    link_connection(connection);
    connection->reads_left = READ_BATCH;
    if (loop->tls != NULL) {
        set_state(connection, STATE_HANDSHAKE, loop->shared->limits.handshake_ms);
    } else {
        tern_metering_handshake(&connection->metering, &connection->stream);
        next_request(connection);
    }
    (void)run(connection);
}

void tern_connection_expire(struct tern_connection *connection)
{
    if (connection->deadline == 0 || uv_now(&connection->loop->uv) < connection->deadline) {
        return;
    }
    if (connection->state != STATE_DRAINING && connection->state != STATE_IDLE) {
        connection->loop->shared->counters.timeouts++;
    }
    switch (connection->state) {
    case STATE_READING:
        // One that was refused has its reply already.
        if (tern_reader_status(connection->reader) == 0) {
            (void)refuse(connection, 408, AFTER_CLOSE);
            (void)run(connection);
            return;
        }
        break;
    case STATE_IDLE:
        if (begin_drain(connection) != STEP_GONE) {
            (void)run(connection);
        }
        return;
    case STATE_HANDSHAKE:
    case STATE_PENDING:
    case STATE_WRITING:
    case STATE_DRAINING:
        break;
    }
    tern_connection_destroy(connection);
}

void tern_connection_wind_up(struct tern_connection *connection)
{
    switch (connection->state) {
    case STATE_PENDING:
    case STATE_WRITING:
        return;
    case STATE_IDLE:
        (void)begin_drain(connection);
        return;
    case STATE_HANDSHAKE:
    case STATE_READING:
    case STATE_DRAINING:
        tern_connection_destroy(connection);
        return;
    }
}

static void send_reply(struct tern_connection *connection, struct tern_http_exchange *exchange)
{
    const struct tern_request_reader *reader = exchange->reader;
    bool closes = !tern_reader_keeps_alive(reader) || connection->loop->stopping;
    struct tern_reply_shape shape = {
        .closes = closes,
        .head_only = strcmp(tern_reader_request(reader)->method, "HEAD") == 0,
    };
    connection->tag = exchange->tag;
    connection->replies = true;
    connection->exchange = NULL;
    tern_reply_write(&exchange->reply, shape, &connection->out);
    tern_exchange_free(exchange);
    connection->reads_left = READ_BATCH;
    (void)begin_write(connection, closes ? AFTER_CLOSE : AFTER_NEXT);
    (void)run(connection);
}

void tern_connection_reply(struct tern_http_exchange *exchange)
{
    if (exchange->connection == NULL) {
        tern_blob_release(exchange->reply.body);
        tern_exchange_free(exchange);
        return;
    }
    send_reply(exchange->connection, exchange);
}
