#include "secure/link/link.h"

#include "hosted/files.h"
#include "posix/transport.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The sum of a thousand keystreams of a million values takes the helper some seconds, in which no byte moves.
#define TIMEOUT_MS 60000u

#define TOKEN_MAX 128u // bytes of a token file

struct tern_helper_link {
    struct tern_curl *curl;
    struct tern_transport transport;
    char token[TOKEN_MAX + 1];
    volatile sig_atomic_t stopped;
};

static enum tern_result read_token(struct tern_helper_link *link, const char *path, char why[512])
{
    uint8_t *data = NULL;
    size_t len = 0;
    const enum tern_result result = tern_file_read_regular(path, TOKEN_MAX, &data, &len);
    if (result == TERN_OK) {
        memcpy(link->token, data, len);
        link->token[strcspn(link->token, " \t\r\n")] = '\0';
    }
    free(data);
    if (result == TERN_OK && link->token[0] != '\0') {
        return TERN_OK;
    }
    snprintf(why, 512,
             "secure.token: %.300s has no token; write the token that `tern-helper federation add` "
             "prints into this file",
             path);
    return TERN_ERR_CONFIG;
}

static enum tern_result open_link(const struct tern_helper_link_config *config,
                                  struct tern_helper_link *link, char why[512])
{
    const struct tern_curl_config curl = {
        .section = "secure", .server = config->server, .ca_file = config->ca, .tls = "auto"};
    TERN_TRY(read_token(link, config->token_file, why));
    TERN_TRY(tern_curl_global());
    TERN_TRY(tern_curl_open(&link->curl, &curl, why));
    link->transport = tern_curl_port(link->curl);
    return TERN_OK;
}

enum tern_result tern_helper_link_open(const struct tern_helper_link_config *config,
                                       struct tern_helper_link **link, char why[512])
{
    why[0] = '\0';
    *link = calloc(1, sizeof **link);
    if (*link == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = open_link(config, *link, why);
    if (result != TERN_OK) {
        tern_helper_link_close(*link);
        *link = NULL;
    }
    return result;
}

void tern_helper_link_stop(struct tern_helper_link *link)
{
    if (link != NULL) {
        link->stopped = 1;
    }
}

void tern_helper_link_close(struct tern_helper_link *link)
{
    if (link != NULL) {
        tern_curl_close(link->curl);
        free(link);
    }
}

// Ends a request when the link is stopped (tern_request.watch).
static bool goes_on(void *ctx, enum tern_direction direction, uint64_t done, uint64_t total)
{
    const struct tern_helper_link *link = ctx;
    (void)direction;
    (void)done;
    (void)total;
    return link->stopped == 0;
}

static enum tern_result exchange(void *ctx, const struct tern_helper_request *request,
                                 struct tern_helper_reply *reply)
{
    struct tern_helper_link *link = ctx;
    const struct tern_request sent = {.purpose = TERN_PURPOSE_UPLOAD,
                                      .method = request->method,
                                      .path = request->path,
                                      .token = link->token,
                                      .body = request->body,
                                      .body_len = request->body_len,
                                      .timeout_ms = TIMEOUT_MS,
                                      .watch = goes_on,
                                      .watch_ctx = link};
    struct tern_response received = {.body = reply->body, .body_size = reply->body_size};
    enum tern_result result = link->stopped ? TERN_ERR_NETWORK : TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = link->transport.exchange(link->transport.ctx, &sent, &received);
    }
    reply->status = received.status;
    reply->body_len = received.body_len;
    if (result == TERN_ERR_CANCELLED) {
        result = TERN_ERR_NETWORK;
    }
    if (result != TERN_OK) {
        snprintf(reply->why, sizeof reply->why, "%.159s", tern_curl_why(link->curl));
        link->transport.close(link->transport.ctx);
    }
    return result;
}

struct tern_helper_port tern_helper_link_port(struct tern_helper_link *link)
{
    return (struct tern_helper_port){link, exchange};
}
