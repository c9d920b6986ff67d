// One event loop on one thread: it accepts, owns its connections, sweeps their deadlines once a
// second and hands replies back to them. Everything here is for that thread alone, except
// tern_loop_start(), tern_loop_stop() and tern_loop_join(), which the server calls.
#ifndef TERN_HTTP_LOOP_H
#define TERN_HTTP_LOOP_H

#include "http/exchange.h"
#include "http/limits.h"
#include "http/tls.h"
#include <stdatomic.h>

struct tern_connection;

// Counters that all loops add to.
struct tern_loop_counters {
    _Atomic uint64_t connections_accepted;
    _Atomic uint64_t connections_refused;
    _Atomic uint64_t handshakes_full;
    _Atomic uint64_t handshakes_resumed;
    _Atomic uint64_t handshakes_failed;
    _Atomic uint64_t requests;
    _Atomic uint64_t requests_refused;
    _Atomic uint64_t timeouts;
};

// What the loops of a server share; it outlives them.
struct tern_loop_shared {
    struct tern_http_handler handler;
    struct tern_http_limits limits;
    struct tern_admission *admission;
    struct tern_ticket_keys *ticket_keys; // NULL = none
    struct tern_loop_counters counters;
};

struct tern_loop {
    uv_loop_t uv;
    uv_thread_t thread;
    struct tern_loop_shared *shared;
    struct tern_tls_context *tls; // NULL = in the clear
    struct tern_mailbox *mailbox;
    uv_async_t wake;
    uv_timer_t sweep;
    uv_timer_t grace;
    uv_check_t turn_end;
    uv_poll_t listener;
    int listen_fd;
    bool is_tcp;
    bool accepts;      // the listener is being polled
    bool rotates_keys; // one loop of a server does
    bool stopping;     // no new requests
    bool closing;      // the loop's own handles are being closed
    uint64_t grace_ms;
    atomic_bool stop_asked;
    struct tern_connection *connections;
    uint8_t read_buffer[TERN_TLS_RECORD_MAX];
    uint8_t write_buffer[TERN_TLS_RECORD_MAX];
};

// Starts the thread of a loop whose shared, tls, listen_fd, is_tcp and rotates_keys are set. Takes
// over tls and listen_fd, also when it fails.
// TERN_ERR_NO_MEMORY threads, descriptors or memory are short
TERN_MUST_USE enum tern_result tern_loop_start(struct tern_loop *loop);

// Asks the loop to finish; returns at once. Once per loop.
void tern_loop_stop(struct tern_loop *loop, uint32_t grace_ms);

// Waits for the thread, releases what the loop holds.
void tern_loop_join(struct tern_loop *loop);

// A connection's memory is gone: the last one lets a stopping loop end.
void tern_loop_forget(struct tern_loop *loop);

#endif
