// A connection whose reply is going out.
#include "http/connection_steps.h"

void tern_connection_answered(struct tern_connection *connection,
                              const struct tern_request_reader *reader)
{
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    if (handler->on_answered == NULL || reader == NULL) {
        return;
    }
    const struct tern_http_answered answered = {
        .request = tern_reader_request(reader),
        .client = connection->tag.client != 0 ? connection->tag.client : tern_reader_client(reader),
        .status = connection->out.status,
        .received = tern_reader_received(reader),
        .sends = connection->out.body_len,
        .ms = tern_connection_now(connection->group) - connection->reading,
    };
    handler->on_answered(handler->ctx, &answered);
}

enum step tern_connection_begin_write(struct tern_connection *connection, enum after after)
{
    connection->after = after;
    tern_connection_set_state(connection, STATE_WRITING, connection->group->limits.write_ms);
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

static enum step written(struct tern_connection *connection)
{
    tern_reply_clear(&connection->out);
    if (connection->replies) {
        connection->replies = false;
        tern_connection_meter_exchange(&connection->metering, &connection->stream,
                                       &connection->tag);
    }
    switch (connection->after) {
    case AFTER_BODY:
        tern_connection_begin_reading(connection);
        return STEP_ON;
    case AFTER_CLOSE:
        return tern_connection_begin_drain(connection);
    case AFTER_NEXT:
        break;
    }
    return connection->group->stopping ? tern_connection_begin_drain(connection)
                                       : tern_connection_next_request(connection);
}

static enum step wait_to_write(struct tern_connection *connection, uint64_t progress_before)
{
    if (tern_stream_progress(&connection->stream) != progress_before) {
        tern_connection_set_state(connection, STATE_WRITING, connection->group->limits.write_ms);
    }
    tern_connection_watch(connection, UV_WRITABLE);
    return STEP_WAIT;
}

enum step tern_connection_step_write(struct tern_connection *connection)
{
    struct tern_reply_out *out = &connection->out;
    uint64_t progress = tern_stream_progress(&connection->stream);
    while (out->sent < out->head_len + out->body_len) {
        struct tern_stream_parts parts = parts_left(out);
        size_t len = 0;
        enum tern_stream_status status =
            tern_stream_write(&connection->stream, &parts, connection->group->write_buffer, &len);
        if (status == TERN_STREAM_WANT_WRITE) {
            return wait_to_write(connection, progress);
        }
        if (status != TERN_STREAM_DONE) {
            return tern_connection_end(connection);
        }
        tern_reply_sent(out, len);
        connection->metering.http_down += len;
    }
    return written(connection);
}
