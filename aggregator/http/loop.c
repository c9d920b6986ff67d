#define _GNU_SOURCE // accept4
#include "http/loop.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
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

static void write_peer(const struct sockaddr_storage *name, char peer[INET6_ADDRSTRLEN])
{
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
        inet_ntop(AF_INET, &v4->sin_addr, peer, INET6_ADDRSTRLEN);
    } else if (name->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)name)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
        inet_ntop(mapped ? AF_INET : AF_INET6, v6->s6_addr + (mapped ? 12 : 0), peer,
                  INET6_ADDRSTRLEN);
    } else {
        memcpy(peer, "unix", 5);
    }
}

static void admit(struct tern_loop *loop, int fd, const struct sockaddr_storage *name)
{
    struct tern_server_shared *shared = loop->connections.shared;
    struct tern_address address = tern_address_of(name);
    char peer[INET6_ADDRSTRLEN];
    write_peer(name, peer);
    if (!tern_admission_enter(shared->admission, &address)) {
        shared->counters.connections_refused++;
        close(fd);
        return;
    }
    shared->counters.connections_accepted++;
    tern_connection_open(&loop->connections, fd, &address, peer);
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
            admit(loop, fd, &name);
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
    tern_connection_expire_all(&loop->connections);
    if (!loop->accepts && !loop->connections.stopping) {
        accept_on(loop);
    }
    if (loop->rotates_keys && loop->connections.shared->ticket_keys != NULL) {
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

static void on_wake(uv_async_t *wake)
{
    struct tern_loop *loop = wake->data;
    take_tls(loop);
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

static bool init_handles(struct tern_loop *loop)
{
    if (uv_async_init(&loop->uv, &loop->wake, on_wake) != 0 ||
        uv_timer_init(&loop->uv, &loop->sweep) != 0 ||
        uv_timer_init(&loop->uv, &loop->grace) != 0 ||
        uv_check_init(&loop->uv, &loop->turn_end) != 0 ||
        uv_poll_init(&loop->uv, &loop->listener, loop->listen_fd) != 0) {
        return false;
    }
    loop->uv.data = loop;
    loop->connections.uv = &loop->uv;
    loop->connections.on_gone = on_gone;
    loop->wake.data = loop;
    loop->sweep.data = loop;
    loop->grace.data = loop;
    loop->turn_end.data = loop;
    loop->listener.data = loop;
    loop->connections.mailbox = tern_mailbox_new(&loop->wake);
    const uint32_t sweep_ms = loop->connections.shared->sweep_ms;
    return loop->connections.mailbox != NULL && uv_check_start(&loop->turn_end, on_turn_end) == 0 &&
           uv_timer_start(&loop->sweep, on_sweep, sweep_ms, sweep_ms) == 0;
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
    tern_tls_context_release(loop->connections.tls);
    tern_tls_context_release(atomic_load(&loop->renewed_tls));
}
