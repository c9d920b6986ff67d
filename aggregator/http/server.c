// Start and stop of the whole listener: what all loops share, and one loop per thread.
#include "http/certificate.h"
#include "http/listen.h"
#include "http/loop.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256u
#define SWEEP_MS 1000u

struct tern_http_server {
    struct tern_server_shared shared;
    uint16_t port;
    char *unix_path; // NULL = TCP
    uint32_t count;  // of loops that run
    struct tern_loop *loops;
};

static uint32_t loop_count(const struct tern_http_config *config)
{
    if (tern_listen_unix_path(config->address) != NULL) {
        return 1; // a unix path has one listening socket
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = config->threads != 0 ? config->threads : (uint32_t)(cores > 0 ? cores : 1);
    return threads < THREADS_MAX ? threads : THREADS_MAX;
}

static enum tern_result check(const struct tern_http_config *config, char why[256])
{
    if (config->address == NULL || config->address[0] == '\0') {
        snprintf(why, 256, "no address to listen on is configured");
        return TERN_ERR_CONFIG;
    }
    if (config->certificate != NULL && config->private_key == NULL) {
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
    shared->limits = config->limits;
    tern_limits_fill(&shared->limits);
    shared->bodies = tern_body_room_new(config->spool_folder, shared->limits.body_memory,
                                        shared->limits.body_disk);
    shared->monotonic_ms = config->monotonic_ms;
    shared->sweep_ms = config->sweep_ms != 0 ? config->sweep_ms : SWEEP_MS;
    shared->admission =
        tern_admission_new(shared->limits.connections, shared->limits.connections_per_address);
    if (shared->admission == NULL || shared->bodies == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    if (config->certificate == NULL || config->ticket_keys == NULL) {
        return TERN_OK;
    }
    return tern_ticket_keys_open(config->ticket_keys, (uint64_t)time(NULL), &shared->ticket_keys,
                                 why);
}

// Each loop reads certificate and key for itself: mbedTLS objects are not shared between threads.
static enum tern_result make_tls(struct tern_http_server *server, const char *certificate,
                                 const char *private_key, struct tern_tls_context **tls,
                                 char why[256])
{
    const struct tern_tls_config config = {.certificate = certificate,
                                           .private_key = private_key,
                                           .keys = server->shared.ticket_keys,
                                           .psk = server->shared.handler.psk,
                                           .psk_ctx = server->shared.handler.ctx};
    return tern_tls_context_new(&config, tls, why);
}

static enum tern_result read_times(struct tern_http_server *server, const char *certificate,
                                   char why[256])
{
    struct tern_certificate_times times;
    TERN_TRY(tern_certificate_times(certificate, &times, why));
    server->shared.certificate_ends_s = times.ends_s;
    return TERN_OK;
}

static enum tern_result start_loop(struct tern_http_server *server,
                                   const struct tern_http_config *config, int fd, char why[256])
{
    struct tern_loop *loop = &server->loops[server->count];
    loop->connections.shared = &server->shared;
    loop->listen_fd = fd;
    loop->connections.is_tcp = server->unix_path == NULL;
    loop->rotates_keys = server->count == 0;
    if (config->certificate != NULL) {
        enum tern_result result =
            make_tls(server, config->certificate, config->private_key, &loop->connections.tls, why);
        if (result != TERN_OK) {
            close(fd);
            return result;
        }
    }
    enum tern_result result = tern_loop_start(loop);
    if (result != TERN_OK) {
        snprintf(why, 256, "loop %u could not be started: threads or descriptors are short",
                 server->count);
        return result;
    }
    server->count++;
    return TERN_OK;
}

static enum tern_result start_loops(struct tern_http_server *server,
                                    const struct tern_http_config *config, char why[256])
{
    uint32_t count = loop_count(config);
    if (config->certificate != NULL) {
        TERN_TRY(read_times(server, config->certificate, why));
    }
    int fds[THREADS_MAX];
    TERN_TRY(tern_listen_open(config->address, config->port, fds, count, &server->port, why));
    const char *path = tern_listen_unix_path(config->address);
    server->unix_path = path != NULL ? strdup(path) : NULL;
    server->loops = calloc(count, sizeof *server->loops);
    enum tern_result result = TERN_OK;
    if (server->loops == NULL || (path != NULL && server->unix_path == NULL)) {
        snprintf(why, 256, "memory is short");
        result = TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (result == TERN_OK) {
            result = start_loop(server, config, fds[i], why);
        } else {
            close(fds[i]);
        }
    }
    return result;
}

enum tern_result tern_http_start(const struct tern_http_config *config,
                                 const struct tern_http_handler *handler,
                                 struct tern_http_server **out, char why[256])
{
    TERN_TRY(check(config, why));
    struct tern_http_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = open_shared(server, config, handler, why);
    if (result == TERN_OK) {
        result = start_loops(server, config, why);
    }
    if (result != TERN_OK) {
        tern_http_stop(server, 0);
        return result;
    }
    *out = server;
    return TERN_OK;
}

enum tern_result tern_http_renew(struct tern_http_server *server, const char *certificate,
                                 const char *private_key, char why[256])
{
    struct tern_tls_context *contexts[THREADS_MAX] = {NULL};
    enum tern_result result = TERN_OK;
    for (uint32_t i = 0; i < server->count && result == TERN_OK; i++) {
        result = make_tls(server, certificate, private_key, &contexts[i], why);
    }
    if (result == TERN_OK) {
        result = read_times(server, certificate, why);
    }
    for (uint32_t i = 0; i < server->count; i++) {
        if (result == TERN_OK) {
            tern_loop_renew_tls(&server->loops[i], contexts[i]);
        } else {
            tern_tls_context_release(contexts[i]);
        }
    }
    return result;
}

uint16_t tern_http_port(const struct tern_http_server *server)
{
    return server->port;
}

void tern_http_stop(struct tern_http_server *server, uint32_t grace_ms)
{
    for (uint32_t i = 0; i < server->count; i++) {
        tern_loop_stop(&server->loops[i], grace_ms);
    }
    for (uint32_t i = 0; i < server->count; i++) {
        tern_loop_join(&server->loops[i]);
    }
    if (server->unix_path != NULL) {
        (void)unlink(server->unix_path);
    }
    free(server->unix_path);
    free(server->loops);
    tern_ticket_keys_close(server->shared.ticket_keys);
    tern_admission_free(server->shared.admission);
    tern_body_room_release(server->shared.bodies);
    free(server);
}

void tern_http_counters(const struct tern_http_server *server, struct tern_http_counters *counters)
{
    const struct tern_server_counters *from = &server->shared.counters;
    *counters = (struct tern_http_counters){
        .connections_open = tern_admission_open(server->shared.admission),
        .connections_accepted = from->connections_accepted,
        .connections_refused = from->connections_refused,
        .handshakes_full = from->handshakes_full,
        .handshakes_resumed = from->handshakes_resumed,
        .handshakes_failed = from->handshakes_failed,
        .requests = from->requests,
        .requests_refused = from->requests_refused,
        .timeouts = from->timeouts,
        .certificate_ends_s = server->shared.certificate_ends_s,
        .body_memory = server->shared.bodies->memory_taken,
        .body_disk = server->shared.bodies->disk_taken,
    };
}
