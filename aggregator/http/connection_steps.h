// What the files of a connection share: its states and the steps from one to the next. Each knows
// those before it: connection_life.c, connection_proxy.c, connection_write.c, connection_read.c, connection.c. For them
// alone, on the loop's thread.
#ifndef TERN_HTTP_CONNECTION_STEPS_H
#define TERN_HTTP_CONNECTION_STEPS_H

#include "http/connection.h"
#include "http/metering.h"
#include "http/reply_writer.h"
#include "http/stream.h"
#include <arpa/inet.h>

// Reads, or requests out of one read, per event, so that one fast peer does not starve the others.
#define READ_BATCH 8

enum state {
    STATE_PROXIED,   // a proxy is to say whose it is; deadline: handshake_ms from accept
    STATE_ARRIVING,  // no byte of a handshake yet; deadline: handshake_ms
    STATE_HELD_BACK, // its address has no free turn for a handshake; deadline: handshake_ms
    STATE_HANDSHAKE, // deadline: handshake_ms from its turn
    STATE_IDLE,      // between requests; deadline: idle_ms
    STATE_READING,   // in a request; deadline: request_ms from its first byte, and min_rate on top
    STATE_PENDING,   // the handler has the exchange; no deadline
    STATE_WRITING,   // a reply is going out; deadline: write_ms without progress
    STATE_DRAINING,  // we said goodbye; deadline: DRAIN_MS
};

// What follows when the reply is out.
enum after { AFTER_NEXT, AFTER_BODY, AFTER_CLOSE };

// What a step came to. After STEP_GONE the connection must not be touched.
enum step { STEP_ON, STEP_WAIT, STEP_GONE };

struct tern_connection {
    struct tern_place place; // first: who has it, has the connection
    struct tern_connection_group *group;
    struct tern_connection *next;
    struct tern_connection **link;          // the pointer that points here
    TAILQ_ENTRY(tern_connection) held_back; // in STATE_HELD_BACK
    uint64_t recognised;             // the client whose ticket its handshake begins with; 0 = none
    struct tern_address turn;        // the address whose turn its handshake has taken
    bool is_spare;                   // its handshake has begun without a turn, in spare time
    struct tern_proxy_header *proxy; // what came of it; NULL unless proxied
    uv_poll_t poll;
    uv_poll_cb on_poll;
    int watched; // uv_poll_event bits
    struct tern_stream stream;
    enum state state;
    uint64_t deadline; // by tern_connection_now(); 0 = none
    uint64_t reading;  // since when
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
    struct tern_connection_meter metering;
    char peer[INET6_ADDRSTRLEN];
    bool of_cache; // the peer is a cache
};

// --- Life (connection_life.c)

// The time of deadlines.
uint64_t tern_connection_now(const struct tern_connection_group *group);
// events: uv_poll_event bits.
void tern_connection_watch(struct tern_connection *connection, int events);
// Whether the socket must become ready before the stream goes on; it is then watched for that.
bool tern_connection_waits(struct tern_connection *connection, enum tern_stream_status status);
// limit_ms: until the deadline; 0 = none.
void tern_connection_set_state(struct tern_connection *connection, enum state state,
                               uint64_t limit_ms);
void tern_connection_begin_reading(struct tern_connection *connection);
// Its handshake begins, when its socket is readable, or waits for its turn.
enum step tern_connection_begin_handshake(struct tern_connection *connection);
// Returns the turn of a successful handshake; the next connection that waits for the same turns may
// begin.
void tern_connection_finish_handshake(struct tern_connection *connection);
// Takes the time of a handshake that has begun without a turn from the loop's spare time.
void tern_connection_charge(const struct tern_connection *connection, uint64_t nanoseconds);
// Those whose turn has come by the time that passed begin.
void tern_connection_hold_back_less(struct tern_connection_group *group);
// The next request may come on the same connection.
enum step tern_connection_next_request(struct tern_connection *connection);
// The orderly end, when we are the first to close.
enum step tern_connection_begin_drain(struct tern_connection *connection);
enum step tern_connection_end(struct tern_connection *connection);

// The peer is, as far as is known, who has that name.
void tern_connection_name_peer(struct tern_connection *connection,
                               const struct sockaddr_storage *name);
// It is known whose it is: the handshake may come, or in the clear the first request.
enum step tern_connection_begin(struct tern_connection *connection);

// Returns the client, which a ticket names, or 0 where the handler does not admit it (struct tern_http_handler).
uint64_t tern_connection_admitted(const struct tern_connection *connection, uint64_t client);

// Marks the connection as authenticated (struct tern_http_permit); its ticket is recognised from now
// on.
void tern_connection_identify(struct tern_connection *connection, uint64_t client);

// The credentials shown were refused, as those of a revoked client are: connections with this ticket are strangers.
void tern_connection_forget_ticket(struct tern_connection *connection);

// --- Behind a proxy (connection_proxy.c)

enum step tern_connection_step_proxied(struct tern_connection *connection);

// --- Writing (connection_write.c)

// Tells the handler what the reader's request is answered: connection->out, for connection->tag. NULL
// is nothing.
void tern_connection_answered(struct tern_connection *connection,
                              const struct tern_request_reader *reader);
// connection->out is to go out.
enum step tern_connection_begin_write(struct tern_connection *connection, enum after after);
enum step tern_connection_step_write(struct tern_connection *connection);

// --- Reading (connection_read.c)

enum step tern_connection_step_read(struct tern_connection *connection);
// Answers without the handler. The exchange, if there was to be one, counts as the handler said when
// it admitted it, or for nobody.
enum step tern_connection_refuse(struct tern_connection *connection, int status, enum after after);

#endif
