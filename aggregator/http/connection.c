// A connection is in one state, which says what its socket is watched for and what its deadline
// means. run() takes steps until the socket, or the handler, makes it wait.
#include "http/connection_steps.h"
#include "http/limits.h"
#include "http/proxy.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// How much a peer may still send after we said goodbye.
#define DRAIN_BYTES (1u << 20)

// --- The last bytes

static enum step step_drain(struct tern_connection *connection)
{
    size_t len = 0;
    enum tern_stream_status status =
        tern_stream_discard(&connection->stream, connection->group->read_buffer, &len);
    connection->drained += len;
    if (tern_connection_waits(connection, status)) {
        return STEP_WAIT;
    }
    bool goes_on = status == TERN_STREAM_DONE && connection->drained <= DRAIN_BYTES;
    return goes_on ? STEP_ON : tern_connection_end(connection);
}

// --- Handshake

// Returns the client of the pre-shared key, or of the ticket: who finishes a handshake with a ticket has the session
// that a token was shown in. 0 = none.
static uint64_t proven_client(const struct tern_connection *connection)
{
    const uint64_t client = tern_stream_client(&connection->stream);
    struct tern_known_tickets *tickets = connection->group->shared->known_tickets;
    const bool has_ticket = tickets != NULL && tern_tls_resumed(connection->stream.tls);
    return client == 0 && has_ticket
               ? tern_connection_admitted(
                     connection,
                     tern_known_tickets_client(tickets, tern_stream_ticket(&connection->stream)))
               : client;
}

static enum step handshake_done(struct tern_connection *connection)
{
    struct tern_server_counters *counters = &connection->group->shared->counters;
    if (tern_tls_resumed(connection->stream.tls)) {
        counters->handshakes_resumed++;
    } else {
        counters->handshakes_full++;
    }
    tern_connection_finish_handshake(connection);
    tern_connection_meter_handshake(&connection->metering, &connection->stream);
    const uint64_t client = proven_client(connection);
    if (client != 0) {
        tern_connection_identify(connection, client);
    } else {
        tern_admission_doubt(connection->group->shared->admission, &connection->place);
    }
    return tern_connection_next_request(connection);
}

static void count_failed(const struct tern_connection *connection)
{
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    struct tern_server_counters *counters = &connection->group->shared->counters;
    const char *why = tern_tls_refusal(connection->stream.tls);
    counters->handshakes_failed++;
    counters->client_certificates_refused += why[0] != '\0';
    if (handler->on_handshake_failed != NULL) {
        handler->on_handshake_failed(handler->ctx, connection->peer, why);
    }
}

// Processor time, so that a busy machine does not make handshakes look expensive.
static uint64_t thread_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static enum step step_handshake(struct tern_connection *connection)
{
    const uint64_t begin = thread_time_ns();
    const enum tern_stream_status status = tern_tls_handshake(connection->stream.tls);
    tern_connection_charge(connection, thread_time_ns() - begin);
    if (status == TERN_STREAM_DONE) {
        return handshake_done(connection);
    }
    if (tern_connection_waits(connection, status)) {
        return STEP_WAIT;
    }
    count_failed(connection);
    return tern_connection_end(connection);
}

// --- Driving

static enum step run(struct tern_connection *connection)
{
    enum step step = STEP_ON;
    while (step == STEP_ON) {
        switch (connection->state) {
        case STATE_PROXIED:
            step = tern_connection_step_proxied(connection);
            break;
        case STATE_ARRIVING:
            step = tern_connection_begin_handshake(connection);
            break;
        case STATE_HANDSHAKE:
            step = step_handshake(connection);
            break;
        case STATE_IDLE:
        case STATE_READING:
            step = tern_connection_step_read(connection);
            break;
        case STATE_WRITING:
            step = tern_connection_step_write(connection);
            break;
        case STATE_DRAINING:
            step = step_drain(connection);
            break;
        case STATE_HELD_BACK:
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
        tern_connection_watch(connection, UV_DISCONNECT);
    } else if (connection->stream.tls != NULL) {
        tern_connection_destroy(connection);
    } else {
        tern_connection_watch(connection, 0);
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
    if (connection->state == STATE_HELD_BACK) {
        count_failed(connection);
        tern_connection_destroy(connection); // its peer has closed
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
    struct tern_connection_group *group = connection->group;
    connection->next = group->first;
    connection->link = &group->first;
    if (connection->next != NULL) {
        connection->next->link = &connection->next;
    }
    group->first = connection;
}

static bool setup(struct tern_connection *connection, int fd)
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
    connection->on_poll = on_poll;
    return true;
}

// NULL: it may not come in, or memory is short.
static struct tern_connection *admit(struct tern_connection_group *group,
                                     const struct tern_address *address)
{
    struct tern_connection *connection = calloc(1, sizeof *connection);
    const bool entered =
        connection != NULL &&
        tern_admission_enter(group->shared->admission, &group->places, address, &connection->place);
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
    tern_connection_set_state(connection, STATE_PROXIED, connection->group->limits.handshake_ms);
    return connection->proxy != NULL;
}

void tern_connection_name_peer(struct tern_connection *connection,
                               const struct sockaddr_storage *name)
{
    tern_address_text(name, connection->peer);
    connection->of_cache = tern_networks_contain(&connection->group->shared->caches, name);
}

void tern_connection_open(struct tern_connection_group *group, int fd,
                          const struct sockaddr_storage *name)
{
    const bool proxied = tern_networks_contain(&group->shared->proxies, name);
    const struct tern_address nobodys = {{0}}; // for a proxy's address nothing is counted
    const struct tern_address address = proxied ? nobodys : tern_address_of(name);
    struct tern_connection *connection = admit(group, &address);
    if (connection == NULL) {
        close(fd);
        return;
    }
    connection->group = group;
    connection->metering.handler = &group->shared->handler;
    tern_connection_name_peer(connection, name);
    const bool ready = !proxied || begin_proxied(connection);
    if (!ready) {
        close(fd);
    }
    if (!ready || !setup(connection, fd)) {
        tern_admission_leave(group->shared->admission, &connection->place);
        free(connection->proxy);
        free(connection);
        return;
    }
    link_connection(connection);
    connection->reads_left = READ_BATCH;
    if (proxied || tern_connection_begin(connection) == STEP_ON) {
        (void)run(connection);
    }
}

static void expire(struct tern_connection *connection)
{
    if (connection->state != STATE_DRAINING && connection->state != STATE_IDLE) {
        connection->group->shared->counters.timeouts++;
    }
    switch (connection->state) {
    case STATE_READING:
        // One that was refused has its reply already.
        if (tern_reader_status(connection->reader) == 0) {
            (void)tern_connection_refuse(connection, 408, AFTER_CLOSE);
            (void)run(connection);
            return;
        }
        break;
    case STATE_IDLE:
        if (tern_connection_begin_drain(connection) != STEP_GONE) {
            (void)run(connection);
        }
        return;
    case STATE_PROXIED:
    case STATE_ARRIVING:
    case STATE_HELD_BACK:
    case STATE_HANDSHAKE:
    case STATE_PENDING:
    case STATE_WRITING:
    case STATE_DRAINING:
        break;
    }
    tern_connection_destroy(connection);
}

uint64_t tern_connection_expire_all(struct tern_connection_group *group)
{
    const uint64_t now = tern_connection_now(group);
    struct tern_connection *connection = group->first;
    while (connection != NULL) {
        struct tern_connection *next = connection->next;
        if (connection->deadline != 0 && now >= connection->deadline) {
            expire(connection);
        }
        connection = next;
    }
    tern_connection_hold_back_less(group);
    return now;
}

void tern_connection_end_displaced(struct tern_connection_group *group)
{
    struct tern_admission *admission = group->shared->admission;
    struct tern_place *place = tern_admission_displaced(admission, &group->places);
    while (place != NULL) {
        group->shared->counters.connections_displaced++;
        tern_connection_destroy((struct tern_connection *)place);
        place = tern_admission_displaced(admission, &group->places);
    }
}

void tern_connection_wind_up(struct tern_connection *connection)
{
    switch (connection->state) {
    case STATE_PENDING:
    case STATE_WRITING:
        return;
    case STATE_IDLE:
        (void)tern_connection_begin_drain(connection);
        return;
    case STATE_READING:
        if (connection->reader != NULL && tern_reader_has_head(connection->reader)) {
            return;
        }
        break;
    case STATE_PROXIED:
    case STATE_ARRIVING:
    case STATE_HELD_BACK:
    case STATE_HANDSHAKE:
    case STATE_DRAINING:
        break;
    }
    tern_connection_destroy(connection);
}

static void send_reply(struct tern_connection *connection, struct tern_http_exchange *exchange)
{
    const struct tern_request_reader *reader = exchange->reader;
    bool closes =
        !tern_reader_keeps_alive(reader) || connection->group->stopping || exchange->reply.closes;
    struct tern_reply_shape shape = {
        .closes = closes,
        .head_only = strcmp(tern_reader_request(reader)->method, "HEAD") == 0,
    };
    connection->tag = exchange->tag;
    connection->replies = true;
    connection->exchange = NULL;
    tern_reply_write(&exchange->reply, shape, &connection->out);
    tern_connection_answered(connection, reader);
    tern_exchange_free(exchange);
    tern_admission_touch(connection->group->shared->admission, &connection->place);
    connection->reads_left = READ_BATCH;
    (void)tern_connection_begin_write(connection, closes ? AFTER_CLOSE : AFTER_NEXT);
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
