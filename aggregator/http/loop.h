// One event loop on one thread: it accepts, owns its connections, sweeps their deadlines
// every sweep_ms and hands replies back to them. Everything here is for that thread alone, except
// tern_loop_start(), tern_loop_renew_tls(), tern_loop_renew_limits(), tern_loop_stop() and
// tern_loop_join(), which the server calls.
#ifndef TERN_HTTP_LOOP_H
#define TERN_HTTP_LOOP_H

#include "http/connection.h"
#include <stdatomic.h>

struct tern_loop {
    uv_loop_t uv;
    uv_thread_t thread;
    struct tern_connection_group connections;
    uv_async_t wake;
    uv_timer_t sweep;
    uv_timer_t grace;
    uv_check_t turn_end;
    uv_poll_t listener;
    int listen_fd;
    bool accepts;  // the listener is being polled
    bool is_first; // of a server: rotates the keys and sweeps what is kept of bodies
    bool closing;  // the loop's own handles are being closed
    _Atomic uint64_t sweeps;
    uint64_t grace_ms;
    atomic_bool stop_asked;
    _Atomic(struct tern_tls_context *) renewed_tls; // to be taken; NULL = none
    atomic_bool limits_renewed;                     // those of `shared` are to be taken
};

// Starts the thread of a loop whose listen_fd, is_first and, of its connections, shared, tls
// and is_tcp are set. Takes over tls and listen_fd, also when it fails. TERN_ERR_NO_MEMORY threads,
// descriptors or memory are short
TERN_MUST_USE enum tern_result tern_loop_start(struct tern_loop *loop);

// Gives the loop another context for connections from now on, and takes it over.
void tern_loop_renew_tls(struct tern_loop *loop, struct tern_tls_context *tls);

// Has it take the limits of `shared`.
void tern_loop_renew_limits(struct tern_loop *loop);

// Asks the loop to finish; returns at once. Once per loop.
void tern_loop_stop(struct tern_loop *loop, uint32_t grace_ms);

// Waits for the thread, releases what the loop holds.
void tern_loop_join(struct tern_loop *loop);

#endif
