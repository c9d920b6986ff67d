// A connection whose request is coming in, until the handler has it or it is refused.
#include "http/connection_steps.h"
#include <stdlib.h>
#include <string.h>

// A long body over a slow link takes its time; what a peer gains by it, it pays for in bytes.
static void extend_reading(struct tern_connection *connection)
{
    const struct tern_http_limits *limits = &connection->group->limits;
    uint64_t body = tern_reader_received(connection->reader);
    connection->deadline =
        connection->reading + limits->request_ms + body * 1000 / limits->min_rate;
}

static int admit(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 struct tern_http_permit *permit)
{
    struct tern_connection *connection = ctx;
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    const int status = handler->on_headers != NULL
                           ? handler->on_headers(handler->ctx, request, content_length, permit)
                           : 0;
    if (permit->known) {
        tern_connection_identify(connection, permit->client);
    } else if (status == 401) {
        tern_connection_forget_ticket(connection);
    }
    return status;
}

static bool begin_request(struct tern_connection *connection)
{
    const struct tern_http_limits *limits = &connection->group->limits;
    struct tern_reader_config config = {
        .header_bytes = limits->header_bytes,
        .body_bytes = limits->body_bytes,
        .room = connection->group->shared->bodies,
        .uploads = connection->group->shared->uploads,
        .id = ++connection->group->shared->request_ids,
        .peer = connection->peer,
        .address = connection->place.address,
        .of_cache = connection->of_cache,
        .psk_client = tern_stream_client(&connection->stream),
        .certificate = tern_stream_certificate(&connection->stream),
        .admit = admit,
        .ctx = connection,
    };
    connection->reader = tern_reader_new(&config);
    tern_connection_begin_reading(connection);
    return connection->reader != NULL;
}

enum step tern_connection_refuse(struct tern_connection *connection, int status, enum after after)
{
    const struct tern_request_reader *reader = connection->reader;
    const bool is_readers = reader != NULL && tern_reader_status(reader) == status;
    struct tern_http_reply reply =
        tern_reply_refusal(&connection->group->shared->handler,
                           reader != NULL ? tern_reader_request(reader)->path : "/", status,
                           is_readers ? tern_reader_refusal(reader) : TERN_OK);
    struct tern_reply_shape shape = {.closes = after == AFTER_CLOSE};
    connection->tag = (struct tern_http_tag){0};
    if (reader != NULL) {
        connection->tag = *tern_reader_tag(reader);
        shape.head_only = strcmp(tern_reader_request(reader)->method, "HEAD") == 0;
    }
    tern_reply_write(&reply, shape, &connection->out);
    tern_connection_answered(connection, reader);
    connection->group->shared->counters.requests_refused++;
    connection->replies = true;
    return tern_connection_begin_write(connection, after);
}

static enum step hand_over(struct tern_connection *connection)
{
    const struct tern_connection_group *group = connection->group;
    connection->exchange = tern_exchange_new(group->mailbox, connection->reader, connection);
    if (connection->exchange == NULL) {
        return tern_connection_refuse(connection, 503, AFTER_CLOSE);
    }
    connection->reader = NULL;
    group->shared->counters.requests++;
    tern_admission_busy(group->shared->admission, &connection->place);
    tern_connection_set_state(connection, STATE_PENDING, 0);
    group->shared->handler.on_request(group->shared->handler.ctx, connection->exchange);
    return STEP_WAIT;
}

// The request is complete: a refused one was only read to its end, and has had its reply.
static enum step complete(struct tern_connection *connection)
{
    return tern_reader_status(connection->reader) != 0 ? tern_connection_next_request(connection)
                                                       : hand_over(connection);
}

static enum step refused_by_reader(struct tern_connection *connection)
{
    bool stays = tern_reader_reusable(connection->reader);
    return tern_connection_refuse(connection, tern_reader_status(connection->reader),
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
    return tern_connection_begin_write(connection, AFTER_BODY);
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
        return tern_connection_refuse(connection, 503, AFTER_CLOSE);
    }
    enum tern_result result = tern_reader_feed(connection->reader, data, len, &used);
    connection->metering.http_up += used;
    // Kept first: the handler's reply may come back before on_request returns.
    if (keep_input(connection, data + used, len - used) == STEP_GONE) {
        return tern_connection_end(connection);
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

enum step tern_connection_step_read(struct tern_connection *connection)
{
    const bool has_turn = connection->reads_left-- > 0;
    if (connection->input != NULL && !has_turn) {
        tern_connection_watch(connection, UV_WRITABLE); // it goes on in the loop's next turn
        return STEP_WAIT;
    }
    if (connection->input != NULL) {
        return consume_input(connection);
    }
    tern_connection_watch(connection, UV_READABLE);
    if (!has_turn) {
        return STEP_WAIT;
    }
    uint8_t *buffer = connection->group->read_buffer;
    size_t len = 0;
    const enum tern_stream_status status =
        tern_stream_read(&connection->stream, buffer, TERN_TLS_RECORD_MAX, &len);
    if (status == TERN_STREAM_DONE) {
        return consume(connection, buffer, len);
    }
    return tern_connection_waits(connection, status) ? STEP_WAIT : tern_connection_end(connection);
}
