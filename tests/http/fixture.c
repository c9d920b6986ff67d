#include "fixture.h"
#include "util/bytes.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void sleep_ms(unsigned ms)
{
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fixture: %s\n", what);
        abort();
    }
}

// --- The service

static struct tern_blob *blob_of(const void *data, size_t len)
{
    struct tern_blob *blob = tern_blob_new(len);
    must(blob != NULL, "memory is short");
    if (len > 0) {
        memcpy(blob->data, data, len);
    }
    return blob;
}

#define UPLOAD "/upload/"

// The N of /client/N and /upload/N.
static uint64_t client_of(const char *path)
{
    return strtoull(strrchr(path, '/') + 1, NULL, 10);
}

static bool expects_upload(void *ctx, uint64_t owner, const char *path)
{
    struct fixture *fixture = ctx;
    must(client_of(path) == owner, "a body is kept for another path");
    return owner != fixture->disowned;
}

static bool admits_client(void *ctx, uint64_t client)
{
    struct fixture *fixture = ctx;
    return client != fixture->revoked;
}

static int on_headers(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    struct fixture *fixture = ctx;
    (void)content_length;
    if (strcmp(request->path, "/facts") == 0) {
        permit->body_limit = FACTS_BODY;
    }
    if (strncmp(request->path, UPLOAD, strlen(UPLOAD)) == 0) {
        permit->owner = client_of(request->path);
        permit->tag = (struct tern_http_tag){
            .client = permit->owner, .round = 3, .purpose = TERN_PURPOSE_UPLOAD};
    }
    permit->known = strcmp(request->authorization, "Bearer good") == 0;
    permit->client = permit->known ? 7 : 0;
    fixture->headers_seen++;
    return strcmp(request->authorization, "Bearer bad") == 0 ? 401 : 0;
}

static void reply_bytes(struct tern_http_exchange *exchange, const void *data, size_t len)
{
    struct tern_http_reply reply = {.status = 200, .body = blob_of(data, len)};
    tern_http_reply(exchange, &reply);
}

static void reply_facts(struct tern_http_exchange *exchange,
                        const struct tern_http_request *request)
{
    char text[5000];
    int len = snprintf(text, sizeof text, "%s %s %s %llu", request->method, request->path,
                       request->authorization, (unsigned long long)request->range_from);
    reply_bytes(exchange, text, (size_t)len);
}

static void reply_who(struct tern_http_exchange *exchange, const struct tern_http_request *request)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)request->psk_client);
    reply_bytes(exchange, text, (size_t)len);
}

static void reply_certificate(struct tern_http_exchange *exchange,
                              const struct tern_http_request *request)
{
    reply_bytes(exchange, request->certificate, strlen(request->certificate));
}

static void reply_of_cache(struct tern_http_exchange *exchange,
                           const struct tern_http_request *request)
{
    reply_bytes(exchange, request->peer_is_cache ? "yes" : "no", request->peer_is_cache ? 3 : 2);
}

static bool find_psk(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE])
{
    struct fixture *fixture = ctx;
    pthread_mutex_lock(&fixture->lock);
    bool found = client < PSK_CLIENTS && fixture->has_psk[client];
    if (found) {
        memcpy(key, fixture->psk[client], TERN_HTTP_PSK_SIZE);
    }
    pthread_mutex_unlock(&fixture->lock);
    return found;
}

static void reply_blob(struct fixture *fixture, struct tern_http_exchange *exchange,
                       const struct tern_http_request *request)
{
    struct tern_http_reply reply = {
        .status = 200,
        .cache = "public, max-age=31536000, immutable",
        .body = tern_blob_share(fixture->blob),
        .body_from = (size_t)request->range_from,
    };
    tern_http_reply(exchange, &reply);
}

// As to a cache, which sends client 7 1,000 bytes.
static void reply_told(struct tern_http_exchange *exchange)
{
    struct tern_http_tag tag = {.client = 7,
                                .purpose = TERN_PURPOSE_DOWNLOAD,
                                .payload_down = 900,
                                .peer_is_cache = true,
                                .cache_receives = 100,
                                .cache_sends = 1000};
    tern_http_exchange_tag(exchange, &tag);
    reply_bytes(exchange, "x", 1);
}

static void reply_tagged(struct tern_http_exchange *exchange,
                         const struct tern_http_request *request)
{
    struct tern_http_tag tag = {
        .client = client_of(request->path),
        .round = 3,
        .purpose = TERN_PURPOSE_UPLOAD,
        .payload_up = request->body_len,
        .payload_down = 1,
    };
    tern_http_exchange_tag(exchange, &tag);
    reply_bytes(exchange, "x", 1);
}

static void reply_kept(struct tern_http_exchange *exchange, const struct tern_http_request *request)
{
    struct tern_http_unfinished kept;
    char text[100];
    if (!tern_http_exchange_unfinished(exchange, client_of(request->path), &kept)) {
        tern_http_reply(exchange, &(struct tern_http_reply){.status = 404});
        return;
    }
    const int len = snprintf(text, sizeof text, "%u ", kept.len);
    tern_hex_encode(kept.sha256, sizeof kept.sha256, text + len);
    reply_bytes(exchange, text, strlen(text));
}

static void hand(struct fixture *fixture, struct tern_http_exchange **slot,
                 struct tern_http_exchange *exchange)
{
    pthread_mutex_lock(&fixture->lock);
    *slot = exchange;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct fixture *fixture = ctx;
    const struct tern_http_request *request = tern_http_exchange_request(exchange);
    fixture->requests_seen++;
    fixture->body_bytes_seen += request->body_len;
    if (strcmp(request->path, "/echo") == 0) {
        reply_bytes(exchange, request->body, request->body_len);
    } else if (strcmp(request->path, "/facts") == 0) {
        reply_facts(exchange, request);
    } else if (strcmp(request->path, "/who") == 0) {
        reply_who(exchange, request);
    } else if (strcmp(request->path, "/certificate") == 0) {
        reply_certificate(exchange, request);
    } else if (strcmp(request->path, "/of-cache") == 0) {
        reply_of_cache(exchange, request);
    } else if (strcmp(request->path, "/told") == 0) {
        reply_told(exchange);
    } else if (strcmp(request->path, "/blob") == 0) {
        reply_blob(fixture, exchange, request);
    } else if (strcmp(request->path, "/thread") == 0) {
        hand(fixture, &fixture->handed, exchange);
    } else if (strcmp(request->path, "/held") == 0) {
        hand(fixture, &fixture->held, exchange);
    } else if (strncmp(request->path, UPLOAD, strlen(UPLOAD)) == 0 &&
               strcmp(request->method, "GET") == 0) {
        reply_kept(exchange, request);
    } else if (strncmp(request->path, "/client/", 8) == 0 ||
               strncmp(request->path, UPLOAD, strlen(UPLOAD)) == 0) {
        reply_tagged(exchange, request);
    } else {
        tern_http_reply(exchange, &(struct tern_http_reply){.status = 404});
    }
}

static void on_metered(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down)
{
    struct fixture *fixture = ctx;
    pthread_mutex_lock(&fixture->lock);
    struct tern_meter *meter = &fixture->metered[tag->client % 10];
    tern_bytes_add(&meter->bytes[tag->purpose][TERN_UP], up);
    tern_bytes_add(&meter->bytes[tag->purpose][TERN_DOWN], down);
    fixture->cache_sends += tag->cache_sends;
    fixture->cache_receives += tag->cache_receives;
    fixture->not_of_cache += !tag->peer_is_cache;
    pthread_mutex_unlock(&fixture->lock);
}

static void *other_thread(void *argument)
{
    struct fixture *fixture = argument;
    pthread_mutex_lock(&fixture->lock);
    while (!fixture->stops) {
        struct tern_http_exchange *exchange = fixture->handed;
        fixture->handed = NULL;
        if (exchange == NULL) {
            pthread_cond_wait(&fixture->changed, &fixture->lock);
            continue;
        }
        pthread_mutex_unlock(&fixture->lock);
        const struct tern_http_request *request = tern_http_exchange_request(exchange);
        reply_bytes(exchange, request->body, request->body_len);
        pthread_mutex_lock(&fixture->lock);
    }
    pthread_mutex_unlock(&fixture->lock);
    return NULL;
}

// --- Start and stop

// A root and a leaf signed by it, P-256 both; the server sends the leaf alone, as a device that
// pins the root needs no more.
void fixture_certificate(const char *folder)
{
    char command[1400];
    snprintf(command, sizeof command,
             "cd %s && exec 2>/dev/null && "
             "openssl ecparam -name prime256v1 -genkey -noout -out ca.key && "
             "openssl req -x509 -new -key ca.key -subj '/CN=Tern test' -days 2 -out ca.pem && "
             "openssl ecparam -name prime256v1 -genkey -noout -out server.key && "
             "openssl req -new -key server.key -subj '/CN=localhost' -out server.csr && "
             "printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > ext && "
             "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
             "-extfile ext -out server.pem",
             folder);
    must(system(command) == 0, "openssl could not make a certificate");
}

static void make_folder(struct fixture *fixture)
{
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/tern-http-XXXXXX");
    must(mkdtemp(fixture->folder) != NULL, "no temporary folder");
    snprintf(fixture->certificate, sizeof fixture->certificate, "%s/server.pem", fixture->folder);
    snprintf(fixture->root, sizeof fixture->root, "%s/ca.pem", fixture->folder);
    snprintf(fixture->private_key, sizeof fixture->private_key, "%s/server.key", fixture->folder);
    snprintf(fixture->tickets, sizeof fixture->tickets, "%s/tickets", fixture->folder);
    snprintf(fixture->ticket_clients, sizeof fixture->ticket_clients, "%s/clients",
             fixture->folder);
}

static void launch(struct fixture *fixture, const struct tern_http_config *config)
{
    const struct tern_http_handler handler = {
        .ctx = fixture,
        .on_headers = on_headers,
        .expects_upload = expects_upload,
        .admits_client = admits_client,
        .on_request = on_request,
        .psk = fixture->offers_psk ? find_psk : NULL,
        .on_metered = on_metered,
    };
    char why[256] = "";
    enum tern_result result = tern_http_start(config, &handler, &fixture->server, why);
    must(result == TERN_OK, why);
    fixture->port = tern_http_port(fixture->server);
}

void fixture_start(struct fixture *fixture, struct tern_http_config *config, bool plain)
{
    memset(fixture, 0, sizeof *fixture);
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    make_folder(fixture);
    config->address = config->address != NULL ? config->address : "127.0.0.1";
    config->threads = config->threads != 0 ? config->threads : 2;
    if (!plain) {
        fixture_certificate(fixture->folder);
        config->files.certificate = fixture->certificate;
        config->files.private_key = fixture->private_key;
        config->ticket_keys = fixture->tickets;
        config->ticket_clients = fixture->ticket_clients;
    }
    fixture->blob = tern_blob_new(BLOB_SIZE);
    must(fixture->blob != NULL, "memory is short");
    for (size_t i = 0; i < BLOB_SIZE; i++) {
        fixture->blob->data[i] = (uint8_t)(i * 7);
    }
    must(pthread_create(&fixture->thread, NULL, other_thread, fixture) == 0, "no thread");
    launch(fixture, config);
}

void fixture_restart(struct fixture *fixture, struct tern_http_config *config)
{
    tern_http_stop(fixture->server, 1000);
    launch(fixture, config);
}

struct tern_http_counters fixture_counters(const struct fixture *fixture)
{
    struct tern_http_counters counters;
    tern_http_counters(fixture->server, &counters);
    return counters;
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') {
            unlink(path);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(folder);
}

void fixture_stop(struct fixture *fixture)
{
    tern_http_stop(fixture->server, 1000);
    pthread_mutex_lock(&fixture->lock);
    fixture->stops = true;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
    pthread_join(fixture->thread, NULL);
    if (fixture->held != NULL) {
        fixture_release(fixture);
    }
    tern_blob_release(fixture->blob);
    pthread_mutex_destroy(&fixture->lock);
    pthread_cond_destroy(&fixture->changed);
    remove_folder(fixture->folder);
}

// --- Waiting

#define WAITS 2000 // of 10 ms: less than any limit of the listener that a test leaves as it is

bool fixture_wait_held(struct fixture *fixture)
{
    bool held = false;
    for (int i = 0; i < WAITS && !held; i++) {
        pthread_mutex_lock(&fixture->lock);
        held = fixture->held != NULL;
        pthread_mutex_unlock(&fixture->lock);
        if (!held) {
            sleep_ms(10);
        }
    }
    return held;
}

void fixture_release(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->lock);
    struct tern_http_exchange *exchange = fixture->held;
    fixture->held = NULL;
    pthread_mutex_unlock(&fixture->lock);
    reply_bytes(exchange, "late", 4);
}

bool fixture_wait_count(const _Atomic uint32_t *counter, uint32_t value)
{
    for (int i = 0; i < WAITS && *counter < value; i++) {
        sleep_ms(10);
    }
    return *counter >= value;
}

bool fixture_wait_idle(struct fixture *fixture)
{
    struct tern_http_counters counters = {.connections_open = 1};
    for (int i = 0; i < WAITS && counters.connections_open > 0; i++) {
        sleep_ms(10);
        tern_http_counters(fixture->server, &counters);
    }
    return counters.connections_open == 0;
}

struct tern_meter fixture_metered(struct fixture *fixture, uint64_t client)
{
    pthread_mutex_lock(&fixture->lock);
    struct tern_meter meter = fixture->metered[client % 10];
    pthread_mutex_unlock(&fixture->lock);
    return meter;
}
