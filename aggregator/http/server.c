// Start and stop of the whole listener: what all loops share, and one loop per thread.
#include "http/body.h"
#include "http/certificate.h"
#include "http/limits.h"
#include "http/listen.h"
#include "http/loop.h"
#include <errno.h>
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
    tern_limits_fill(&shared->limits);
    shared->bodies = tern_body_room_new(config->spool_folder, shared->limits.body_memory,
                                        shared->limits.body_disk);
    shared->uploads =
        shared->bodies != NULL ? tern_uploads_new(shared->bodies, shared->limits.unfinished) : NULL;
    TERN_TRY(tern_networks_parse(config->proxy_from != NULL ? config->proxy_from : "",
                                 &shared->proxies, why));
    TERN_TRY(tern_networks_parse(config->cache_from != NULL ? config->cache_from : "",
                                 &shared->caches, why));
    shared->monotonic_ms = config->monotonic_ms;
    shared->sweep_ms = config->sweep_ms != 0 ? config->sweep_ms : SWEEP_MS;
    shared->admission = tern_admission_new(&shared->limits);
    if (shared->admission == NULL || shared->uploads == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result found = tern_uploads_load(shared->uploads);
    if (found != TERN_OK) {
        snprintf(why, 256, "uploads that were cut cannot be read from %s: %s", config->spool_folder,
                 strerror(errno));
        return found;
    }
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

// The files as they were at one moment: what replaces them meanwhile is all of the next renewal or
// nothing of this one.
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

// Each loop parses them for itself: mbedTLS objects are not shared between threads.
static enum tern_result make_tls(struct tern_http_server *server, const struct files *files,
                                 struct tern_tls_context **tls, char why[256])
{
    const struct tern_tls_config config = {.certificate = files->certificate,
                                           .private_key = files->private_key,
                                           .client_ca = files->client_ca,
                                           .client_certificate_optional =
                                               files->client_certificate_optional,
                                           .keys = server->shared.ticket_keys,
                                           .psk = server->shared.handler.psk,
                                           .psk_ctx = server->shared.handler.ctx};
    return tern_tls_context_new(&config, tls, why);
}

static enum tern_result take_times(struct tern_http_server *server, const struct files *files,
                                   char why[256])
{
    struct tern_certificate_times times;
    struct tern_certificate_times of_clients = {0};
    TERN_TRY(tern_pem_times(&files->certificate, &times, why));
    if (files->client_ca.bytes != NULL) {
        TERN_TRY(tern_pem_times(&files->client_ca, &of_clients, why));
    }
    server->shared.certificate_ends_s = times.ends_s;
    server->shared.client_ca_ends_s = of_clients.ends_s;
    return TERN_OK;
}

static enum tern_result start_loop(struct tern_http_server *server, const struct files *files,
                                   int fd, char why[256])
{
    struct tern_loop *loop = &server->loops[server->count];
    loop->connections.shared = &server->shared;
    loop->listen_fd = fd;
    loop->connections.is_tcp = server->unix_path == NULL;
    loop->is_first = server->count == 0;
    if (files->certificate.bytes != NULL) {
        enum tern_result result = make_tls(server, files, &loop->connections.tls, why);
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
                                    const struct tern_http_config *config,
                                    const struct files *files, char why[256])
{
    uint32_t count = loop_count(config);
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
        result = take_times(server, &files, why);
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
    TERN_TRY(check(config, why));
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

enum tern_result tern_http_renew(struct tern_http_server *server,
                                 const struct tern_http_files *names, char why[256])
{
    struct tern_tls_context *contexts[THREADS_MAX] = {NULL};
    struct files files;
    TERN_TRY(read_files(names, &files, why));
    enum tern_result result = TERN_OK;
    for (uint32_t i = 0; i < server->count && result == TERN_OK; i++) {
        result = make_tls(server, &files, &contexts[i], why);
    }
    if (result == TERN_OK) {
        result = take_times(server, &files, why);
    }
    free_files(&files);
    for (uint32_t i = 0; i < server->count; i++) {
        if (result == TERN_OK) {
            tern_loop_renew_tls(&server->loops[i], contexts[i]);
        } else {
            tern_tls_context_release(contexts[i]);
        }
    }
    return result;
}

void tern_http_limit(struct tern_http_server *server, const struct tern_http_limits *limits)
{
    struct tern_server_shared *shared = &server->shared;
    struct tern_http_limits filled = *limits;
    tern_limits_fill(&filled);
    pthread_mutex_lock(&shared->limits_lock);
    shared->limits = filled;
    pthread_mutex_unlock(&shared->limits_lock);
    tern_admission_limit(shared->admission, &filled);
    tern_body_room_limit(shared->bodies, filled.body_memory, filled.body_disk);
    tern_uploads_limit(shared->uploads, filled.unfinished);
    for (uint32_t i = 0; i < server->count; i++) {
        tern_loop_renew_limits(&server->loops[i]);
    }
}

enum tern_result tern_http_check_files(const struct tern_http_files *names, char why[256])
{
    struct tern_tls_context *context = NULL;
    struct files files;
    TERN_TRY(read_files(names, &files, why));
    const struct tern_tls_config config = {.certificate = files.certificate,
                                           .private_key = files.private_key,
                                           .client_ca = files.client_ca};
    const enum tern_result result = tern_tls_context_new(&config, &context, why);
    if (result == TERN_OK) {
        tern_tls_context_release(context);
    }
    free_files(&files);
    return result;
}

uint16_t tern_http_port(const struct tern_http_server *server)
{
    return server->port;
}

struct tern_ticket_keys *tern_http_ticket_keys(struct tern_http_server *server)
{
    return server->shared.ticket_keys;
}

uint64_t tern_http_turns(const struct tern_http_server *server)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < server->count; i++) {
        const uint64_t sweeps = server->loops[i].sweeps;
        least = sweeps < least ? sweeps : least;
    }
    return least;
}

// On a full disk the devices of the tickets are strangers until they show their tokens again.
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
    save_known_tickets(&server->shared);
    tern_known_tickets_free(server->shared.known_tickets);
    free(server->shared.ticket_clients);
    tern_uploads_free(server->shared.uploads);
    tern_body_room_release(server->shared.bodies);
    pthread_mutex_destroy(&server->shared.limits_lock);
    free(server);
}

void tern_http_counters(const struct tern_http_server *server, struct tern_http_counters *counters)
{
    const struct tern_server_counters *from = &server->shared.counters;
    *counters = (struct tern_http_counters){
        .connections_open = tern_admission_open(server->shared.admission),
        .connections_accepted = from->connections_accepted,
        .connections_refused = from->connections_refused,
        .connections_displaced = from->connections_displaced,
        .handshakes_full = from->handshakes_full,
        .handshakes_resumed = from->handshakes_resumed,
        .handshakes_failed = from->handshakes_failed,
        .client_certificates_refused = from->client_certificates_refused,
        .handshakes_held_back = from->handshakes_held_back,
        .requests = from->requests,
        .requests_refused = from->requests_refused,
        .timeouts = from->timeouts,
        .certificate_ends_s = server->shared.certificate_ends_s,
        .client_ca_ends_s = server->shared.client_ca_ends_s,
        .body_memory = server->shared.bodies->memory_taken,
        .body_disk = server->shared.bodies->disk_taken,
        .bodies_unfinished = tern_uploads_kept(server->shared.uploads),
        .bodies_continued = tern_uploads_continued(server->shared.uploads),
    };
}
