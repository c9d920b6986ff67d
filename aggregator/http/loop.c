#define _GNU_SOURCE // accept4
#include "http/loop.h"
#include "http/body.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Accepted per event, so that a crowd at the door does not starve those inside.
#define ACCEPT_BATCH 64

// --- Accepting

static void on_listener(uv_poll_t *handle, int status, int events);

static void accept_on(struct tern_loop *loop)
{
    loop->accepts = uv_poll_start(&loop->listener, UV_READABLE, on_listener) == 0;
}

static void accept_off(struct tern_loop *loop)
{
    uv_poll_stop(&loop->listener);
    loop->accepts = false;
}

static void open_connection(struct tern_loop *loop, int fd, const struct sockaddr_storage *name)
{
    tern_connection_open(&loop->connections, fd, name);
    tern_connection_end_displaced(&loop->connections);
}

static void on_listener(uv_poll_t *handle, int status, int events)
{
    struct tern_loop *loop = handle->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage name = {0};
        socklen_t len = sizeof name;
        int fd =
            accept4(loop->listen_fd, (struct sockaddr *)&name, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            open_connection(loop, fd, &name);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            accept_off(loop); // until the next sweep, instead of spinning on it
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

// --- Sweep and mailbox

// What a reply lets the handler answer at once waits for the next turn: a peer that pipelines must
// not keep the loop from the others.
static void deliver(struct tern_loop *loop)
{
    if (loop->closing) {
        return; // the mailbox is gone
    }
    struct tern_http_exchange *exchange = tern_mailbox_take(loop->connections.mailbox);
    while (exchange != NULL) {
        struct tern_http_exchange *next = exchange->next;
        tern_connection_reply(exchange);
        exchange = next;
    }
    if (!loop->closing && !tern_mailbox_is_empty(loop->connections.mailbox)) {
        uv_async_send(&loop->wake);
    }
}

static void for_each(struct tern_loop *loop, void (*act)(struct tern_connection *))
{
    struct tern_connection *connection = loop->connections.first;
    while (connection != NULL) {
        struct tern_connection *next = tern_connection_next(connection);
        act(connection);
        connection = next;
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct tern_loop *loop = timer->data;
    const struct tern_server_shared *shared = loop->connections.shared;
    const uint64_t now = tern_connection_expire_all(&loop->connections);
    tern_handshakes_sweep(loop->connections.handshakes, now);
    loop->sweeps++;
    if (loop->is_first) {
        tern_uploads_sweep(shared->uploads, now, loop->connections.limits.unfinished_ms,
                           &shared->handler);
    }
    if (!loop->accepts && !loop->connections.stopping) {
        accept_on(loop);
    }
    if (loop->is_first && loop->connections.shared->ticket_keys != NULL) {
        // A full disk leaves the old keys in use; the next sweep tries again.
        enum tern_result ignored =
            tern_ticket_keys_rotate(loop->connections.shared->ticket_keys, (uint64_t)time(NULL));
        (void)ignored;
    }
    deliver(loop);
}

static void close_handles(struct tern_loop *loop)
{
    if (loop->closing || loop->connections.first != NULL) {
        return;
    }
    loop->closing = true;
    tern_mailbox_close(loop->connections.mailbox);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->sweep, NULL);
    uv_close((uv_handle_t *)&loop->grace, NULL);
    uv_close((uv_handle_t *)&loop->connections.spare, NULL);
    uv_close((uv_handle_t *)&loop->turn_end, NULL);
}

// The last connection lets a stopping loop end.
static void on_gone(struct tern_connection_group *connections)
{
    if (connections->stopping) {
        close_handles(connections->uv->data);
    }
}

static void on_grace(uv_timer_t *timer)
{
    struct tern_loop *loop = timer->data;
    for_each(loop, tern_connection_destroy);
    close_handles(loop);
}

static void begin_stop(struct tern_loop *loop)
{
    loop->connections.stopping = true;
    accept_off(loop);
    uv_close((uv_handle_t *)&loop->listener, NULL);
    close(loop->listen_fd);
    for_each(loop, tern_connection_wind_up);
    uv_timer_start(&loop->grace, on_grace, loop->grace_ms, 0);
    close_handles(loop);
}

// Connections that are open keep the context that they began with.
static void take_tls(struct tern_loop *loop)
{
    struct tern_tls_context *renewed = atomic_exchange(&loop->renewed_tls, NULL);
    if (renewed != NULL) {
        tern_tls_context_release(loop->connections.tls);
        loop->connections.tls = renewed;
    }
}

static void take_limits(struct tern_loop *loop)
{
    struct tern_server_shared *shared = loop->connections.shared;
    pthread_mutex_lock(&shared->limits_lock);
    loop->connections.limits = shared->limits;
    pthread_mutex_unlock(&shared->limits_lock);
}

static void on_wake(uv_async_t *wake)
{
    struct tern_loop *loop = wake->data;
    take_tls(loop);
    if (atomic_exchange(&loop->limits_renewed, false)) {
        take_limits(loop);
        tern_handshakes_limit(loop->connections.handshakes,
                              loop->connections.limits.handshakes_per_address);
    }
    tern_connection_end_displaced(&loop->connections);
    deliver(loop);
    if (atomic_load(&loop->stop_asked) && !loop->connections.stopping) {
        begin_stop(loop);
    }
}

// --- Thread

// After the callbacks of a turn: replies that handlers gave on this very thread go out now.
static void on_turn_end(uv_check_t *check)
{
    deliver(check->data);
}

static void run(void *argument)
{
    struct tern_loop *loop = argument;
    sigset_t all;
    sigfillset(&all); // signals are the program's, for its main thread
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    tern_mailbox_own(loop->connections.mailbox);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

// Other loops have taken places of this one's connections.
static void wake_up(void *ctx)
{
    struct tern_loop *loop = ctx;
    uv_async_send(&loop->wake);
}

static bool init_handles(struct tern_loop *loop)
{
    if (uv_async_init(&loop->uv, &loop->wake, on_wake) != 0 ||
        uv_timer_init(&loop->uv, &loop->sweep) != 0 ||
        uv_timer_init(&loop->uv, &loop->grace) != 0 ||
        uv_timer_init(&loop->uv, &loop->connections.spare) != 0 ||
        uv_check_init(&loop->uv, &loop->turn_end) != 0 ||
        uv_poll_init(&loop->uv, &loop->listener, loop->listen_fd) != 0) {
        return false;
    }
    loop->uv.data = loop;
    loop->connections.uv = &loop->uv;
    loop->connections.on_gone = on_gone;
    tern_place_group_init(&loop->connections.places, wake_up, loop);
    TAILQ_INIT(&loop->connections.held_back);
    loop->wake.data = loop;
    loop->sweep.data = loop;
    loop->grace.data = loop;
    loop->connections.spare.data = &loop->connections;
    loop->turn_end.data = loop;
    loop->listener.data = loop;
    loop->connections.mailbox = tern_mailbox_new(&loop->wake);
    const struct tern_server_shared *shared = loop->connections.shared;
    take_limits(loop);
    loop->connections.handshakes =
        tern_handshakes_new(loop->connections.limits.handshakes_per_address);
    return loop->connections.mailbox != NULL && loop->connections.handshakes != NULL &&
           uv_check_start(&loop->turn_end, on_turn_end) == 0 &&
           uv_timer_start(&loop->sweep, on_sweep, shared->sweep_ms, shared->sweep_ms) == 0;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    uv_close(handle, NULL);
}

static void abandon(struct tern_loop *loop)
{
    if (loop->connections.mailbox != NULL) {
        tern_mailbox_close(loop->connections.mailbox);
    }
    uv_walk(&loop->uv, close_handle, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    close(loop->listen_fd);
    tern_handshakes_free(loop->connections.handshakes);
    tern_tls_context_release(loop->connections.tls);
}

enum tern_result tern_loop_start(struct tern_loop *loop)
{
    if (uv_loop_init(&loop->uv) != 0) {
        close(loop->listen_fd);
        tern_tls_context_release(loop->connections.tls);
        return TERN_ERR_NO_MEMORY;
    }
    if (!init_handles(loop)) {
        abandon(loop);
        return TERN_ERR_NO_MEMORY;
    }
    accept_on(loop);
    if (uv_thread_create(&loop->thread, run, loop) != 0) {
        abandon(loop);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

void tern_loop_renew_tls(struct tern_loop *loop, struct tern_tls_context *tls)
{
    tern_tls_context_release(atomic_exchange(&loop->renewed_tls, tls)); // one that nobody took yet
    uv_async_send(&loop->wake);
}

void tern_loop_renew_limits(struct tern_loop *loop)
{
    atomic_store(&loop->limits_renewed, true);
    uv_async_send(&loop->wake);
}

void tern_loop_stop(struct tern_loop *loop, uint32_t grace_ms)
{
    loop->grace_ms = grace_ms; // the loop reads it after stop_asked
    atomic_store(&loop->stop_asked, true);
    uv_async_send(&loop->wake);
}

void tern_loop_join(struct tern_loop *loop)
{
    uv_thread_join(&loop->thread);
    uv_loop_close(&loop->uv);
    tern_handshakes_free(loop->connections.handshakes);
    tern_tls_context_release(loop->connections.tls);
    tern_tls_context_release(atomic_load(&loop->renewed_tls));
}
