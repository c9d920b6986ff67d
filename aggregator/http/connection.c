// A connection is in one state, which says what its socket is watched for and what its deadline
// means. run() takes steps until the socket, or the handler, makes it wait.
#include "http/connection_steps.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// How long and how much a peer may still send after we said goodbye. Closing at once would make the
// kernel reset the connection and the reply with it.
#define DRAIN_MS 5000u
#define DRAIN_BYTES (1u << 20)

// --- Watching

static void on_poll(uv_poll_t *poll, int status, int events);

void connection_watch(struct tern_connection *connection, int events)
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

void connection_set_state(struct tern_connection *connection, enum state state, uint64_t limit_ms)
{
    connection->state = state;
    connection->deadline = limit_ms == 0 ? 0 : uv_now(&connection->loop->uv) + limit_ms;
}

void connection_begin_reading(struct tern_connection *connection)
{
    connection->reading = uv_now(&connection->loop->uv);
    connection_set_state(connection, STATE_READING, connection->loop->shared->limits.request_ms);
}

// --- End

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
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
        uint64_t sent = connection_body_sent(&connection->out);
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

enum step connection_end(struct tern_connection *connection)
{
    tern_connection_destroy(connection);
    return STEP_GONE;
}

enum step connection_next_request(struct tern_connection *connection)
{
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    connection->continued = false;
    connection_set_state(connection, STATE_IDLE, connection->loop->shared->limits.idle_ms);
    return STEP_ON;
}

enum step connection_begin_drain(struct tern_connection *connection)
{
    tern_stream_finish(&connection->stream);
    if (connection->loop->stopping) {
        return connection_end(connection);
    }
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    free(connection->input);
    connection->input = NULL;
    connection_set_state(connection, STATE_DRAINING, DRAIN_MS);
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
        connection_watch(connection, UV_READABLE);
        return STEP_WAIT;
    }
    bool goes_on = status == TERN_STREAM_DONE && connection->drained <= DRAIN_BYTES;
    return goes_on ? STEP_ON : connection_end(connection);
}

// --- Handshake

static enum step handshake_done(struct tern_connection *connection)
{
    struct tern_loop_counters *counters = &connection->loop->shared->counters;
    if (tern_tls_resumed(connection->stream.tls)) {
        counters->handshakes_resumed++;
    } else {
        counters->handshakes_full++;
    }
    tern_metering_handshake(&connection->metering, &connection->stream);
    return connection_next_request(connection);
}

static enum step step_handshake(struct tern_connection *connection)
{
    switch (tern_tls_handshake(connection->stream.tls)) {
    case TERN_STREAM_DONE:
        return handshake_done(connection);
    case TERN_STREAM_WANT_READ:
        connection_watch(connection, UV_READABLE);
        return STEP_WAIT;
    case TERN_STREAM_WANT_WRITE:
        connection_watch(connection, UV_WRITABLE);
        return STEP_WAIT;
    case TERN_STREAM_END:
    case TERN_STREAM_FAILED:
        break;
    }
    connection->loop->shared->counters.handshakes_failed++;
    return connection_end(connection);
}

// --- Driving

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
            step = connection_step_read(connection);
            break;
        case STATE_WRITING:
            step = connection_step_write(connection);
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
        connection_watch(connection, UV_DISCONNECT);
    } else if (connection->stream.tls != NULL) {
        tern_connection_destroy(connection);
    } else {
        connection_watch(connection, 0);
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
        connection_set_state(connection, STATE_HANDSHAKE, loop->shared->limits.handshake_ms);
    } else {
        tern_metering_handshake(&connection->metering, &connection->stream);
        connection_next_request(connection);
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
            (void)connection_refuse(connection, 408, AFTER_CLOSE);
            (void)run(connection);
            return;
        }
        break;
    case STATE_IDLE:
        if (connection_begin_drain(connection) != STEP_GONE) {
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
        (void)connection_begin_drain(connection);
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
    (void)connection_begin_write(connection, closes ? AFTER_CLOSE : AFTER_NEXT);
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
