// Starts and stops the listener: the listening sockets, one event loop per thread, and the state that loops share. A loop
// accepts connections, checks their deadlines every sweep_ms and sends replies, all on its own thread. The caller's thread
// runs start_loop(), replace_tls(), replace_limits(), stop_loop() and join_loop().
#define _GNU_SOURCE // accept4
#include "http/body.h"
#include "http/certificate.h"
#include "http/connection.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256u
#define SWEEP_MS 1000u
#define BACKLOG 1024

// Limit of connections accepted per event, so that a flood of new connections does not starve open connections.
#define ACCEPT_BATCH 64

struct loop {
    uv_loop_t uv;
    uv_thread_t thread;
    struct tern_connection_group connections;
    uv_async_t wake;
    uv_timer_t sweep;
    uv_timer_t grace;
    uv_check_t iteration_end;
    uv_poll_t listener;
    int listen_fd;
    bool accepts;  // the listener is being polled
    bool is_first; // rotates the ticket keys and sweeps the uploads for all loops
    bool closing;  // the loop is closing its libuv handles
    _Atomic uint64_t sweeps;
    uint64_t grace_ms;
    atomic_bool stop_asked;
    _Atomic(struct tern_tls_context *)
        next_tls;               // context that the loop takes over next; NULL = none
    atomic_bool limits_changed; // the loop must copy the limits of `shared`
};

struct tern_http_server {
    struct tern_server_shared shared;
    uint16_t port;
    const char *address; // that of the configuration, or ANY_IPV4
    char *unix_path;     // NULL = TCP
    uint32_t count;      // number of running loops
    struct loop *loops;
};

// --- Listening sockets

static enum tern_result refuse(enum tern_result result, const char *address, uint16_t port,
                               const char *reason, char why[256])
{
    snprintf(why, 256, "cannot listen on %.120s port %u: %s", address, port, reason);
    return result;
}

// Returns the path of "unix:/path"; NULL for other addresses.
static const char *unix_path_of(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
}

// Whether a killed process left this socket file, which would make every later bind() fail. If connect() succeeds,
// another process uses the file.
static bool is_stale(const struct sockaddr_un *name)
{
    struct stat status;
    if (lstat(name->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool answers = connect(fd, (const struct sockaddr *)name, sizeof *name) == 0;
    bool stale = !answers && errno == ECONNREFUSED;
    close(fd);
    return stale;
}

static enum tern_result open_unix(const char *path, bool group_connects, int *fd, char why[256])
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) == 0 || strlen(path) >= sizeof name.sun_path) {
        snprintf(why, 256, "the unix socket path has %zu bytes; it must have 1 to %zu",
                 strlen(path), sizeof name.sun_path - 1);
        return TERN_ERR_CONFIG;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    if (is_stale(&name)) {
        (void)unlink(path); // bind() fails if the file still exists
    }
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // bind() creates the file with the mode of the socket, so that other users can never connect.
    if (*fd < 0 || fchmod(*fd, 0600) != 0 ||
        bind(*fd, (const struct sockaddr *)&name, sizeof name) != 0 ||
        (group_connects && chmod(path, 0660) != 0) || listen(*fd, BACKLOG) != 0) {
        snprintf(why, 256, "cannot listen on unix:%.110s: %s", path, strerror(errno));
        return TERN_ERR_NETWORK;
    }
    return TERN_OK;
}

// A socket at this address takes connections of both families, and without IPv6 the other one replaces it.
#define ANY_ADDRESS "::"
#define ANY_IPV4 "0.0.0.0"

static bool is_any_ipv6(const struct sockaddr *name)
{
    return name->sa_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)name)->sin6_addr);
}

static int bind_socket(const struct addrinfo *name, bool shares)
{
    int fd = socket(name->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    int off = 0;
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (is_any_ipv6(name->ai_addr) && // whatever net.ipv6.bindv6only is
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        (shares && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
        bind(fd, name->ai_addr, name->ai_addrlen) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

// Binds a socket without SO_REUSEPORT, which fails if another aggregator listens there. With SO_REUSEPORT it would succeed,
// and silently take half of the other aggregator's devices.
static bool is_taken(const struct addrinfo *name)
{
    int fd = bind_socket(name, false);
    bool taken = fd < 0 || listen(fd, 1) != 0;
    if (fd >= 0) {
        close(fd);
    }
    return taken;
}

static void set_port(struct addrinfo *name, uint16_t port)
{
    if (name->ai_family == AF_INET6) {
        ((struct sockaddr_in6 *)name->ai_addr)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)name->ai_addr)->sin_port = htons(port);
    }
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &len) != 0) {
        return 0;
    }
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                            : ((struct sockaddr_in *)&name)->sin_port);
}

static bool open_tcp(struct addrinfo *name, int *fds, uint32_t count, uint16_t *bound)
{
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = bind_socket(name, count > 1);
        if (fds[i] < 0 || listen(fds[i], BACKLOG) != 0) {
            return false;
        }
        *bound = port_of(fds[i]);
        set_port(name, *bound);
    }
    return true;
}

static void close_all(int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

// Opens `count` sockets at an address of TCP. *lacks_family: this machine has no address of that family.
// TERN_ERR_CONFIG, TERN_ERR_NETWORK  as open_sockets()
static enum tern_result open_address(const char *address, uint16_t port, int *fds, uint32_t count,
                                     uint16_t *bound, bool *lacks_family, char why[256])
{
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *name = NULL;
    int error = getaddrinfo(address, service, &hints, &name);
    if (error != 0) {
        return refuse(TERN_ERR_CONFIG, address, port, gai_strerror(error), why);
    }
    bool opened = !(port != 0 && is_taken(name)) && open_tcp(name, fds, count, bound);
    int reason = errno;
    freeaddrinfo(name);
    if (!opened) {
        *lacks_family = reason == EAFNOSUPPORT || reason == EADDRNOTAVAIL;
        close_all(fds, count);
        return refuse(TERN_ERR_NETWORK, address, port, strerror(reason), why);
    }
    return TERN_OK;
}

// Binds `count` sockets (one for a unix path) and listens. *address: where they listen in the end. *bound is the port, 0
// for a unix path.
// TERN_ERR_CONFIG   the address cannot be parsed
// TERN_ERR_NETWORK  the address cannot be bound, or another process already listens there
static enum tern_result open_sockets(const char **address, const struct tern_http_config *config,
                                     int *fds, uint32_t count, uint16_t *bound, char why[256])
{
    bool lacks_family = false;
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = -1;
    }
    *bound = 0;
    if (unix_path_of(*address) != NULL) {
        enum tern_result result =
            open_unix(unix_path_of(*address), config->group_connects, fds, why);
        if (result != TERN_OK) {
            close_all(fds, 1);
        }
        return result;
    }
    enum tern_result result =
        open_address(*address, config->port, fds, count, bound, &lacks_family, why);
    if (result == TERN_ERR_NETWORK && lacks_family && strcmp(*address, ANY_ADDRESS) == 0) {
        *address = ANY_IPV4;
        result = open_address(*address, config->port, fds, count, bound, &lacks_family, why);
    }
    return result;
}

// --- Loop: accepting

static void on_listener(uv_poll_t *handle, int status, int events);

static void accept_on(struct loop *loop)
{
    loop->accepts = uv_poll_start(&loop->listener, UV_READABLE, on_listener) == 0;
}

static void accept_off(struct loop *loop)
{
    uv_poll_stop(&loop->listener);
    loop->accepts = false;
}

static void open_connection(struct loop *loop, int fd, const struct sockaddr_storage *name)
{
    tern_connection_open(&loop->connections, fd, name);
    tern_connections_end_displaced(&loop->connections);
}

static void on_listener(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;
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
            accept_off(
                loop); // until the next sweep; otherwise the readable socket would make the loop spin
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

// --- Loop: sweep and stop

static void on_sweep(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    const struct tern_server_shared *shared = loop->connections.shared;
    const uint64_t now = tern_connections_expire(&loop->connections);
    loop->sweeps++;
    if (loop->is_first) {
        tern_uploads_sweep(shared->uploads, now, loop->connections.limits.unfinished_ms,
                           &shared->handler);
    }
    if (!loop->accepts && !loop->connections.stopping) {
        accept_on(loop);
    }
    if (loop->is_first && loop->connections.shared->ticket_keys != NULL) {
        // If the file cannot be written, the old keys stay in use, and the next sweep tries again.
        enum tern_result ignored =
            tern_ticket_keys_rotate(loop->connections.shared->ticket_keys, (uint64_t)time(NULL));
        (void)ignored;
    }
    tern_connections_deliver(&loop->connections);
}

static void close_handles(struct loop *loop)
{
    if (loop->closing || !LIST_EMPTY(&loop->connections.open)) {
        return;
    }
    loop->closing = true;
    tern_connections_close(&loop->connections);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->sweep, NULL);
    uv_close((uv_handle_t *)&loop->grace, NULL);
    uv_close((uv_handle_t *)&loop->connections.spare, NULL);
    uv_close((uv_handle_t *)&loop->iteration_end, NULL);
}

// Ends a stopping loop when its last connection has closed.
static void on_gone(struct tern_connection_group *connections)
{
    if (connections->stopping) {
        close_handles(connections->uv->data);
    }
}

static void on_grace(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    tern_connections_end(&loop->connections, false);
    close_handles(loop);
}

static void begin_stop(struct loop *loop)
{
    loop->connections.stopping = true;
    accept_off(loop);
    uv_close((uv_handle_t *)&loop->listener, NULL);
    close(loop->listen_fd);
    tern_connections_end(&loop->connections, true);
    uv_timer_start(&loop->grace, on_grace, loop->grace_ms, 0);
    close_handles(loop);
}

// Uses the new context for new connections; open connections have references to their old context.
static void take_tls(struct loop *loop)
{
    struct tern_tls_context *next = atomic_exchange(&loop->next_tls, NULL);
    if (next != NULL) {
        tern_tls_context_release(loop->connections.tls);
        loop->connections.tls = next;
    }
}

static void take_limits(struct loop *loop)
{
    struct tern_server_shared *shared = loop->connections.shared;
    pthread_mutex_lock(&shared->limits_lock);
    loop->connections.limits = shared->limits;
    loop->connections.handshakes.per_address = shared->limits.handshakes_per_address;
    pthread_mutex_unlock(&shared->limits_lock);
}

static void on_wake(uv_async_t *wake)
{
    struct loop *loop = wake->data;
    take_tls(loop);
    if (atomic_exchange(&loop->limits_changed, false)) {
        take_limits(loop);
    }
    tern_connections_end_displaced(&loop->connections);
    tern_connections_deliver(&loop->connections);
    if (atomic_load(&loop->stop_asked) && !loop->connections.stopping) {
        begin_stop(loop);
    }
}

// --- Threads of loops

// Called after the callbacks of an iteration: sends the replies that handlers gave on this thread.
static void on_iteration_end(uv_check_t *check)
{
    struct loop *loop = check->data;
    tern_connections_deliver(&loop->connections);
}

static void run_thread(void *argument)
{
    struct loop *loop = argument;
    sigset_t all;
    sigfillset(&all); // the program's main thread handles signals
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

static bool init_handles(struct loop *loop)
{
    const struct tern_server_shared *shared = loop->connections.shared;
    if (uv_async_init(&loop->uv, &loop->wake, on_wake) != 0 ||
        uv_timer_init(&loop->uv, &loop->sweep) != 0 ||
        uv_timer_init(&loop->uv, &loop->grace) != 0 ||
        uv_check_init(&loop->uv, &loop->iteration_end) != 0 ||
        uv_poll_init(&loop->uv, &loop->listener, loop->listen_fd) != 0 ||
        !tern_connections_init(&loop->connections, &loop->uv, &loop->wake)) {
        return false;
    }
    loop->uv.data = loop;
    loop->wake.data = loop->sweep.data = loop->grace.data = loop;
    loop->iteration_end.data = loop->listener.data = loop;
    loop->connections.on_gone = on_gone;
    take_limits(loop);
    return uv_check_start(&loop->iteration_end, on_iteration_end) == 0 &&
           uv_timer_start(&loop->sweep, on_sweep, shared->sweep_ms, shared->sweep_ms) == 0;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    uv_close(handle, NULL);
}

static void free_loop(struct loop *loop)
{
    uv_loop_close(&loop->uv);
    tern_handshakes_sweep(&loop->connections.handshakes, UINT64_MAX);
    tern_tls_context_release(loop->connections.tls);
    tern_tls_context_release(atomic_load(&loop->next_tls));
}

// Frees a loop whose thread could not be started.
static void abandon(struct loop *loop)
{
    tern_connections_close(&loop->connections);
    uv_walk(&loop->uv, close_handle, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    close(loop->listen_fd);
    free_loop(loop);
}

// Starts the thread of a loop. The caller has set listen_fd, is_first, and of `connections` shared, tls and is_tcp. Takes
// over tls and listen_fd, also on an error.
// TERN_ERR_NO_MEMORY  the process has no more memory, threads or file descriptors
static enum tern_result run_loop(struct loop *loop)
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
    if (uv_thread_create(&loop->thread, run_thread, loop) != 0) {
        abandon(loop);
        return TERN_ERR_NO_MEMORY;
    }
    return TERN_OK;
}

// Gives the loop the TLS context of new connections. Releases a previous one that the loop has not taken over yet.
static void replace_tls(struct loop *loop, struct tern_tls_context *tls)
{
    tern_tls_context_release(atomic_exchange(&loop->next_tls, tls));
    uv_async_send(&loop->wake);
}

// Makes the loop copy the limits of `shared`.
static void replace_limits(struct loop *loop)
{
    atomic_store(&loop->limits_changed, true);
    uv_async_send(&loop->wake);
}

// Makes the loop stop; returns at once. Call it once.
static void stop_loop(struct loop *loop, uint32_t grace_ms)
{
    loop->grace_ms = grace_ms; // the loop reads grace_ms after stop_asked
    atomic_store(&loop->stop_asked, true);
    uv_async_send(&loop->wake);
}

// Waits for the thread and frees the loop's state.
static void join_loop(struct loop *loop)
{
    uv_thread_join(&loop->thread);
    free_loop(loop);
}

// --- Server

static void fill(uint32_t *limit, uint32_t value)
{
    if (*limit == 0) {
        *limit = value;
    }
}

void tern_http_limits_fill(struct tern_http_limits *limits)
{
    fill(&limits->connections, 10000);
    fill(&limits->connections_per_address, 256);
    fill(&limits->connections_per_client, 8);
    fill(&limits->header_bytes, 4096);
    fill(&limits->body_bytes, 16u << 20);
    if (limits->body_memory == 0) {
        limits->body_memory = 256u << 20;
    }
    if (limits->body_memory < limits->body_bytes) {
        limits->body_memory = limits->body_bytes;
    }
    if (limits->body_disk == 0) {
        limits->body_disk = UINT64_C(8) << 30;
    }
    if (limits->body_disk < limits->body_bytes) {
        limits->body_disk = limits->body_bytes;
    }
    fill(&limits->unfinished, 1000);
    fill(&limits->unfinished_ms, 86400000);
    fill(&limits->handshake_ms, 10000);
    fill(&limits->handshakes_per_address, 8);
    fill(&limits->request_ms, 60000);
    fill(&limits->min_rate, 500);
    fill(&limits->idle_ms, 300000);
    fill(&limits->write_ms, 60000);
}

static uint32_t loop_count(const struct tern_http_config *config)
{
    if (unix_path_of(config->address) != NULL) {
        return 1; // a unix path can be bound once only
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = config->threads != 0 ? config->threads : (uint32_t)(cores > 0 ? cores : 1);
    return threads < THREADS_MAX ? threads : THREADS_MAX;
}

static enum tern_result check_config(const struct tern_http_config *config, char why[256])
{
    if (config->address == NULL || config->address[0] == '\0') {
        snprintf(why, 256, "the address to listen on is empty");
        return TERN_ERR_CONFIG;
    }
    if (config->files.certificate != NULL && config->files.private_key == NULL) {
        snprintf(why, 256, "a certificate is configured, but no private key");
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static enum tern_result open_shared(struct tern_http_server *server,
                                    const struct tern_http_config *config,
                                    const struct tern_http_handler *handler, char why[256])
{
    struct tern_server_shared *shared = &server->shared;
    shared->handler = *handler;
    pthread_mutex_init(&shared->limits_lock, NULL);
    shared->limits = config->limits;
    tern_http_limits_fill(&shared->limits);
    TERN_TRY(tern_networks_parse(config->proxy_from != NULL ? config->proxy_from : "",
                                 &shared->proxies, why));
    TERN_TRY(tern_networks_parse(config->cache_from != NULL ? config->cache_from : "",
                                 &shared->caches, why));
    shared->user_header = config->user_header;
    shared->groups_header = config->groups_header;
    shared->monotonic_ms = config->monotonic_ms;
    shared->sweep_ms = config->sweep_ms != 0 ? config->sweep_ms : SWEEP_MS;
    shared->admission = tern_admission_new(&shared->limits);
    if (shared->admission == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_uploads_open(config->spool_folder, &shared->limits, &shared->uploads, why));
    if (config->files.certificate == NULL || config->ticket_keys == NULL) {
        return TERN_OK;
    }
    shared->known_tickets = tern_known_tickets_new();
    if (shared->known_tickets == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    if (config->ticket_clients != NULL) {
        shared->ticket_clients = strdup(config->ticket_clients);
        tern_known_tickets_load(shared->known_tickets, config->ticket_clients,
                                (uint64_t)time(NULL));
    }
    return tern_ticket_keys_open(config->ticket_keys, (uint64_t)time(NULL), &shared->ticket_keys,
                                 why);
}

// The contents of the PEM files, read once, so that all loops use the same files even if the files are replaced
// meanwhile.
struct files {
    struct tern_pem certificate;
    struct tern_pem private_key;
    struct tern_pem client_ca;
    bool client_certificate_optional;
};

static void free_files(struct files *files)
{
    tern_pem_free(&files->certificate);
    tern_pem_free(&files->private_key);
    tern_pem_free(&files->client_ca);
}

static enum tern_result read_files(const struct tern_http_files *names, struct files *files,
                                   char why[256])
{
    *files = (struct files){.client_certificate_optional = names->client_certificate_optional};
    enum tern_result result =
        tern_pem_read(names->certificate, "the certificate", &files->certificate, why);
    if (result == TERN_OK) {
        result = tern_pem_read(names->private_key, "the private key", &files->private_key, why);
    }
    if (result == TERN_OK && names->client_ca != NULL) {
        result = tern_pem_read(names->client_ca, "the CA of clients", &files->client_ca, why);
    }
    if (result != TERN_OK) {
        free_files(files);
    }
    return result;
}

// Makes the TLS context of one loop, since threads cannot share mbedTLS objects.
static enum tern_result make_tls(const struct tern_server_shared *shared, const struct files *files,
                                 struct tern_tls_context **tls, char why[256])
{
    const struct tern_tls_config config = {.certificate = files->certificate,
                                           .private_key = files->private_key,
                                           .client_ca = files->client_ca,
                                           .client_certificate_optional =
                                               files->client_certificate_optional,
                                           .keys = shared->ticket_keys,
                                           .psk = shared->handler.psk,
                                           .psk_ctx = shared->handler.ctx};
    return tern_tls_context_new(&config, tls, why);
}

// Records when the certificates expire, for tern_http_counters().
static enum tern_result record_expiry(struct tern_http_server *server, const struct files *files,
                                      char why[256])
{
    struct tern_certificate own;
    struct tern_certificate client_ca = {0};
    TERN_TRY(tern_pem_certificate(&files->certificate, &own, why));
    if (files->client_ca.bytes != NULL) {
        TERN_TRY(tern_pem_certificate(&files->client_ca, &client_ca, why));
    }
    server->shared.certificate_ends_s = own.ends_s;
    server->shared.client_ca_ends_s = client_ca.ends_s;
    return TERN_OK;
}

static enum tern_result start_loop(struct tern_http_server *server, const struct files *files,
                                   int fd, char why[256])
{
    struct loop *loop = &server->loops[server->count];
    loop->connections.shared = &server->shared;
    loop->listen_fd = fd;
    loop->connections.is_tcp = server->unix_path == NULL;
    loop->is_first = server->count == 0;
    if (files->certificate.bytes != NULL) {
        enum tern_result result = make_tls(&server->shared, files, &loop->connections.tls, why);
        if (result != TERN_OK) {
            close(fd);
            return result;
        }
    }
    enum tern_result result = run_loop(loop);
    if (result != TERN_OK) {
        snprintf(why, 256,
                 "cannot start event loop %u: the process has no more memory, threads or file "
                 "descriptors",
                 server->count + 1);
        return result;
    }
    server->count++;
    return TERN_OK;
}

static enum tern_result start_loops(struct tern_http_server *server,
                                    const struct tern_http_config *config,
                                    const struct files *files, char why[256])
{
    uint32_t count = loop_count(config);
    int fds[THREADS_MAX];
    server->address = config->address;
    TERN_TRY(open_sockets(&server->address, config, fds, count, &server->port, why));
    const char *path = unix_path_of(config->address);
    server->unix_path = path != NULL ? strdup(path) : NULL;
    server->loops = calloc(count, sizeof *server->loops);
    enum tern_result result = TERN_OK;
    if (server->loops == NULL || (path != NULL && server->unix_path == NULL)) {
        snprintf(why, 256, "memory is short");
        result = TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (result == TERN_OK) {
            result = start_loop(server, files, fds[i], why);
        } else {
            close(fds[i]);
        }
    }
    return result;
}

static enum tern_result start(struct tern_http_server *server,
                              const struct tern_http_config *config, char why[256])
{
    struct files files = {.certificate = {0}};
    enum tern_result result = TERN_OK;
    if (config->files.certificate != NULL) {
        TERN_TRY(read_files(&config->files, &files, why));
        result = record_expiry(server, &files, why);
    }
    if (result == TERN_OK) {
        result = start_loops(server, config, &files, why);
    }
    free_files(&files);
    return result;
}

enum tern_result tern_http_start(const struct tern_http_config *config,
                                 const struct tern_http_handler *handler,
                                 struct tern_http_server **out, char why[256])
{
    TERN_TRY(check_config(config, why));
    struct tern_http_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = open_shared(server, config, handler, why);
    if (result == TERN_OK) {
        result = start(server, config, why);
    }
    if (result != TERN_OK) {
        tern_http_stop(server, 0);
        return result;
    }
    *out = server;
    return TERN_OK;
}

enum tern_result tern_http_reload_files(struct tern_http_server *server,
                                        const struct tern_http_files *names, char why[256])
{
    struct tern_tls_context *contexts[THREADS_MAX] = {NULL};
    struct files files;
    TERN_TRY(read_files(names, &files, why));
    enum tern_result result = TERN_OK;
    for (uint32_t i = 0; i < server->count && result == TERN_OK; i++) {
        result = make_tls(&server->shared, &files, &contexts[i], why);
    }
    if (result == TERN_OK) {
        result = record_expiry(server, &files, why);
    }
    free_files(&files);
    for (uint32_t i = 0; i < server->count; i++) {
        if (result == TERN_OK) {
            replace_tls(&server->loops[i], contexts[i]);
        } else {
            tern_tls_context_release(contexts[i]);
        }
    }
    return result;
}

void tern_http_set_limits(struct tern_http_server *server, const struct tern_http_limits *limits)
{
    struct tern_server_shared *shared = &server->shared;
    struct tern_http_limits filled = *limits;
    tern_http_limits_fill(&filled);
    pthread_mutex_lock(&shared->limits_lock);
    shared->limits = filled;
    pthread_mutex_unlock(&shared->limits_lock);
    tern_admission_set_limits(shared->admission, &filled);
    tern_uploads_set_limits(shared->uploads, &filled);
    for (uint32_t i = 0; i < server->count; i++) {
        replace_limits(&server->loops[i]);
    }
}

enum tern_result tern_http_check_files(const struct tern_http_files *names, char why[256])
{
    static const struct tern_server_shared without_tickets;
    struct tern_tls_context *context = NULL;
    struct files files;
    TERN_TRY(read_files(names, &files, why));
    const enum tern_result result = make_tls(&without_tickets, &files, &context, why);
    tern_tls_context_release(context);
    free_files(&files);
    return result;
}

const char *tern_http_address(const struct tern_http_server *server)
{
    return server->address;
}

uint16_t tern_http_port(const struct tern_http_server *server)
{
    return server->port;
}

struct tern_ticket_keys *tern_http_ticket_keys(struct tern_http_server *server)
{
    return server->shared.ticket_keys;
}

uint64_t tern_http_sweeps(const struct tern_http_server *server)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < server->count; i++) {
        const uint64_t sweeps = server->loops[i].sweeps;
        least = sweeps < least ? sweeps : least;
    }
    return least;
}

// Saves which clients used which tickets. Ignores an error: after a restart, devices with tickets are then strangers
// until they send their tokens.
static void save_known_tickets(const struct tern_server_shared *shared)
{
    if (shared->known_tickets != NULL && shared->ticket_clients != NULL) {
        const enum tern_result ignored = tern_known_tickets_save(
            shared->known_tickets, shared->ticket_clients, (uint64_t)time(NULL));
        (void)ignored;
    }
}

void tern_http_stop(struct tern_http_server *server, uint32_t grace_ms)
{
    for (uint32_t i = 0; i < server->count; i++) {
        stop_loop(&server->loops[i], grace_ms);
    }
    for (uint32_t i = 0; i < server->count; i++) {
        join_loop(&server->loops[i]);
    }
    if (server->unix_path != NULL) {
        (void)unlink(server->unix_path);
    }
    free(server->unix_path);
    free(server->loops);
    tern_ticket_keys_close(server->shared.ticket_keys);
    tern_admission_free(server->shared.admission);
    save_known_tickets(&server->shared);
    tern_known_tickets_free(server->shared.known_tickets);
    free(server->shared.ticket_clients);
    tern_uploads_close(server->shared.uploads);
    pthread_mutex_destroy(&server->shared.limits_lock);
    free(server);
}

void tern_http_counters(const struct tern_http_server *server, struct tern_http_counters *counters)
{
    const struct tern_server_counters *from = &server->shared.counters;
    *counters = (struct tern_http_counters){
#define COUNT(name) .name = from->name,
        TERN_HTTP_COUNTS(COUNT)
#undef COUNT
            .connections_open = tern_admission_open(server->shared.admission),
        .certificate_ends_s = server->shared.certificate_ends_s,
        .client_ca_ends_s = server->shared.client_ca_ends_s,
    };
    tern_uploads_count(server->shared.uploads, counters);
}
