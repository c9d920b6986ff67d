// What every step may do to its connection: watch its socket, change its state, end it.
#include "http/connection_steps.h"
#include <stdlib.h>

// How long a peer may still send after we said goodbye. Closing at once would make the kernel reset
// the connection and the reply with it.
#define DRAIN_MS 5000u

// --- Watching

void tern_connection_watch(struct tern_connection *connection, int events)
{
    if (connection->watched == events) {
        return;
    }
    connection->watched = events;
    if (events == 0) {
        uv_poll_stop(&connection->poll);
    } else {
        uv_poll_start(&connection->poll, events, connection->on_poll);
    }
}

bool tern_connection_waits(struct tern_connection *connection, enum tern_stream_status status)
{
    const bool reads = status == TERN_STREAM_WANT_READ;
    const bool waits = reads || status == TERN_STREAM_WANT_WRITE;
    if (waits) {
        tern_connection_watch(connection, reads ? UV_READABLE : UV_WRITABLE);
    }
    return waits;
}

uint64_t tern_connection_now(const struct tern_connection_group *group)
{
    uint64_t (*monotonic_ms)(void) = group->shared->monotonic_ms;
    return monotonic_ms != NULL ? monotonic_ms() : uv_now(group->uv);
}

void tern_connection_set_state(struct tern_connection *connection, enum state state,
                               uint64_t limit_ms)
{
    connection->state = state;
    connection->deadline = limit_ms == 0 ? 0 : tern_connection_now(connection->group) + limit_ms;
}

void tern_connection_begin_reading(struct tern_connection *connection)
{
    connection->reading = tern_connection_now(connection->group);
    tern_connection_set_state(connection, STATE_READING,
                              connection->group->shared->limits.request_ms);
}

// --- End

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

// What was under way when the connection ended counts for its own tag, as far as it got.
static void meter_end(struct tern_connection *connection)
{
    struct tern_connection_meter *metering = &connection->metering;
    if (connection->exchange != NULL) {
        struct tern_http_tag tag = tern_exchange_tag(connection->exchange);
        tag.payload_down = 0;
        metering->tag = tag.client != 0 ? tag : metering->tag;
    } else if (connection->state == STATE_WRITING && connection->replies) {
        uint64_t sent = tern_reply_body_sent(&connection->out);
        metering->tag = connection->tag;
        metering->tag.payload_down =
            sent < connection->tag.payload_down ? sent : connection->tag.payload_down;
    }
    tern_connection_meter_close(metering, &connection->stream);
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
    struct tern_connection_group *group = connection->group;
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
    tern_admission_leave(group->shared->admission, &connection->address);
    group->on_gone(group);
}

enum step tern_connection_end(struct tern_connection *connection)
{
    tern_connection_destroy(connection);
    return STEP_GONE;
}

enum step tern_connection_next_request(struct tern_connection *connection)
{
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    connection->continued = false;
    tern_stream_delay_acknowledgements(&connection->stream);
    tern_connection_set_state(connection, STATE_IDLE, connection->group->shared->limits.idle_ms);
    return STEP_ON;
}

enum step tern_connection_begin_drain(struct tern_connection *connection)
{
    tern_stream_finish(&connection->stream);
    if (connection->group->stopping) {
        return tern_connection_end(connection);
    }
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    free(connection->input);
    connection->input = NULL;
    tern_connection_set_state(connection, STATE_DRAINING, DRAIN_MS);
    return STEP_ON;
}
