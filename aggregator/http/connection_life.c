// What every step may do to its connection: watch its socket, change its state, end it.
#include "hosted/random.h"
#include "http/connection_steps.h"
#include "http/tickets.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

// How long a peer may still send after we said goodbye. Closing at once would make the kernel reset
// the connection and the reply with it.
#define DRAIN_MS 5000u

// Handshakes without a turn take at most one part in so many of a loop's time: a flood of hellos from the address of
// a device must then outnumber what the machine can do, not `handshakes_per_address`.
#define SPARE_PARTS 8u
#define MS UINT64_C(1000) // in microseconds

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
    tern_connection_set_state(connection, STATE_READING, connection->group->limits.request_ms);
}

// --- Turns of handshakes

uint64_t tern_connection_admitted(const struct tern_connection *connection, uint64_t client)
{
    const struct tern_http_handler *handler = &connection->group->shared->handler;
    const bool admits =
        client == 0 || handler->admits == NULL || handler->admits(handler->ctx, client);
    return admits ? client : 0;
}

// Peeks at the ClientHello, if all of it has arrived.
static void recognise(struct tern_connection *connection)
{
    const struct tern_server_shared *shared = connection->group->shared;
    uint8_t hello[TERN_CLIENT_HELLO_MAX];
    if (shared->known_tickets == NULL || connection->recognised != 0) {
        return;
    }
    const size_t len = tern_stream_peek(&connection->stream, hello, sizeof hello);
    connection->recognised = tern_connection_admitted(
        connection, tern_known_tickets_offered(shared->known_tickets, hello, len));
    if (connection->recognised != 0) {
        tern_admission_recognise(shared->admission, &connection->place, connection->recognised);
    }
}

// Encodes a client's turns as an address that no peer has: IPv4 peers are mapped, IPv6 ones count by
// eight bytes.
static struct tern_address turns_of_client(uint64_t client)
{
    struct tern_address address = {{0}};
    tern_put_le64(address.bytes, client);
    address.bytes[8] = 1;
    return address;
}

static bool takes_turn_of(struct tern_connection *connection, const struct tern_address *turn)
{
    struct tern_connection_group *group = connection->group;
    connection->turn = *turn;
    return tern_handshakes_begin(group->handshakes, turn, tern_connection_now(group));
}

// A known client has its own turns, so strangers of the same address cannot take all of them.
static bool takes_turn(struct tern_connection *connection)
{
    recognise(connection);
    if (connection->recognised != 0) {
        const struct tern_address own = turns_of_client(connection->recognised);
        if (takes_turn_of(connection, &own)) {
            return true;
        }
    }
    return takes_turn_of(connection, &connection->place.address);
}

static void begin(struct tern_connection *connection)
{
    tern_admission_touch(connection->group->shared->admission, &connection->place);
    tern_connection_set_state(connection, STATE_HANDSHAKE, connection->group->limits.handshake_ms);
    tern_connection_watch(connection, UV_READABLE);
}

static uint64_t now_us(const struct tern_connection_group *group)
{
    return tern_connection_now(group) * MS;
}

static void await_spare_time(struct tern_connection_group *group)
{
    if (group->held_back_count == 0 || uv_is_active((const uv_handle_t *)&group->spare)) {
        return;
    }
    const uint64_t now = now_us(group);
    const uint64_t wait_ms = group->spare_from_us > now ? (group->spare_from_us - now) / MS : 0;
    (void)uv_timer_start(&group->spare, tern_connection_use_spare_time, wait_ms + 1, 0);
}

static void hold_back(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    const uint64_t soon = now_us(group) + MS;
    if (group->held_back_count++ == 0 && group->spare_from_us < soon) {
        group->spare_from_us = soon; // time that passed unused is gone
    }
    TAILQ_INSERT_HEAD(&group->held_back, connection, held_back);
    group->shared->counters.handshakes_held_back++;
    await_spare_time(group);
}

static void leave_held_back(struct tern_connection *connection)
{
    TAILQ_REMOVE(&connection->group->held_back, connection, held_back);
    connection->group->held_back_count--;
}

// The newest connection goes first: in a flood the oldest are displaced next.
enum step tern_connection_begin_handshake(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    if (takes_turn(connection)) {
        begin(connection);
        return STEP_ON;
    }
    tern_connection_set_state(connection, STATE_HELD_BACK, group->limits.handshake_ms);
    tern_connection_watch(connection, UV_DISCONNECT);
    hold_back(connection);
    return STEP_WAIT;
}

// Its hello is there already: the loop's next turn goes on with it.
static void let_begin(struct tern_connection *connection)
{
    leave_held_back(connection);
    begin(connection);
}

// A random one: nobody can time its hellos so that those of others are always passed over.
static struct tern_connection *any_held_back(const struct tern_connection_group *group)
{
    uint32_t number = 0;
    const enum tern_result ignored = tern_random_fill(&number, sizeof number);
    (void)ignored;
    struct tern_connection *connection = TAILQ_FIRST(&group->held_back);
    for (number %= group->held_back_count; number > 0; number--) {
        connection = TAILQ_NEXT(connection, held_back);
    }
    return connection;
}

void tern_connection_use_spare_time(uv_timer_t *timer)
{
    struct tern_connection_group *group = timer->data;
    const uint64_t now = now_us(group);
    if (group->held_back_count > 0 && now >= group->spare_from_us) {
        struct tern_connection *connection = any_held_back(group);
        group->spare_from_us = now;
        connection->is_spare = true;
        let_begin(connection);
    }
    await_spare_time(group);
}

void tern_connection_charge(const struct tern_connection *connection, uint64_t nanoseconds)
{
    if (connection->is_spare) {
        connection->group->spare_from_us += nanoseconds / 1000 * SPARE_PARTS;
    }
}

void tern_connection_finish_handshake(struct tern_connection *connection)
{
    struct tern_connection_group *group = connection->group;
    if (connection->is_spare) {
        return;
    }
    tern_handshakes_succeed(group->handshakes, &connection->turn, tern_connection_now(group));
    struct tern_connection *next = TAILQ_FIRST(&group->held_back);
    while (next != NULL && memcmp(&next->turn, &connection->turn, sizeof next->turn) != 0) {
        next = TAILQ_NEXT(next, held_back);
    }
    if (next != NULL && takes_turn(next)) {
        let_begin(next);
    }
}

void tern_connection_hold_back_less(struct tern_connection_group *group)
{
    struct tern_connection *connection = TAILQ_FIRST(&group->held_back);
    while (connection != NULL) {
        struct tern_connection *next = TAILQ_NEXT(connection, held_back);
        if (takes_turn(connection)) {
            let_begin(connection);
        }
        connection = next;
    }
}

// A handshake that ends before our first answer has cost nothing, and returns its turn.
static void leave_handshake(struct tern_connection *connection)
{
    if (connection->state == STATE_HANDSHAKE && tern_stream_progress(&connection->stream) == 0) {
        tern_connection_finish_handshake(connection);
    } else if (connection->state == STATE_HELD_BACK) {
        leave_held_back(connection);
    }
}

void tern_connection_identify(struct tern_connection *connection, uint64_t client)
{
    const struct tern_server_shared *shared = connection->group->shared;
    const uint64_t ticket = tern_stream_ticket(&connection->stream);
    tern_admission_know(shared->admission, &connection->place, client);
    if (ticket != 0 && client != 0) {
        tern_known_tickets_note(shared->known_tickets, ticket, client);
    }
}

void tern_connection_forget_ticket(struct tern_connection *connection)
{
    struct tern_known_tickets *tickets = connection->group->shared->known_tickets;
    const uint64_t ticket = tern_stream_ticket(&connection->stream);
    if (ticket != 0 && tern_known_tickets_client(tickets, ticket) != 0) {
        tern_known_tickets_note(tickets, ticket, 0);
    }
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
        tern_http_tag_clear_cache(&tag);
        metering->tag = tag.client != 0 ? tag : metering->tag;
    } else if (connection->state == STATE_READING &&
               tern_reader_tag(connection->reader)->client != 0) {
        metering->tag = *tern_reader_tag(connection->reader);
    } else if (connection->state == STATE_WRITING && connection->replies) {
        uint64_t sent = tern_reply_body_sent(&connection->out);
        metering->tag = connection->tag;
        metering->tag.payload_down =
            sent < connection->tag.payload_down ? sent : connection->tag.payload_down;
        tern_http_tag_clear_cache(&metering->tag);
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
    leave_handshake(connection);
    tern_stream_shut(&connection->stream);
    meter_end(connection);
    if (connection->exchange != NULL) {
        connection->exchange->connection = NULL;
    }
    tern_reader_free(connection->reader);
    tern_reply_clear(&connection->out);
    free(connection->input);
    free(connection->proxy);
    unlink_connection(connection);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    tern_stream_close(&connection->stream);
    tern_admission_leave(group->shared->admission, &connection->place);
    group->on_gone(group);
}

enum step tern_connection_end(struct tern_connection *connection)
{
    tern_connection_destroy(connection);
    return STEP_GONE;
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

enum step tern_connection_next_request(struct tern_connection *connection)
{
    tern_reader_free(connection->reader);
    connection->reader = NULL;
    connection->continued = false;
    if (connection->group->stopping) {
        return tern_connection_begin_drain(connection);
    }
    tern_stream_delay_acknowledgements(&connection->stream);
    tern_admission_touch(connection->group->shared->admission, &connection->place);
    tern_connection_set_state(connection, STATE_IDLE, connection->group->limits.idle_ms);
    if (connection->input != NULL) {
        return STEP_ON;
    }
    tern_connection_watch(connection, UV_READABLE); // a read now would mostly find nothing yet
    return STEP_WAIT;
}

enum step tern_connection_begin(struct tern_connection *connection)
{
    const struct tern_connection_group *group = connection->group;
    if (group->tls == NULL) {
        tern_connection_meter_handshake(&connection->metering, &connection->stream);
        return tern_connection_next_request(connection);
    }
    recognise(connection); // before newcomers of the same address take its place
    tern_connection_set_state(connection, STATE_ARRIVING, group->limits.handshake_ms);
    tern_connection_watch(connection, UV_READABLE);
    return STEP_WAIT;
}
