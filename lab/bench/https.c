#include "https.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_MAX 4096 // bytes of a request's or a reply's headers

enum tern_result bench_tls_init(struct bench_tls *tls, const char *host, const char *port,
                                const char *ca)
{
    tern_mbedtls_random_init(&tls->random);
    mbedtls_x509_crt_init(&tls->ca);
    mbedtls_ssl_config_init(&tls->config);
    tls->host = host;
    tls->port = port;
    if (!tern_mbedtls_random_start(&tls->random) ||
        mbedtls_x509_crt_parse_file(&tls->ca, ca) != 0 ||
        mbedtls_ssl_config_defaults(&tls->config, MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return TERN_ERR_TLS;
    }
    tern_mbedtls_set_versions(&tls->config, true, false);
    tern_mbedtls_set_random(&tls->config, &tls->random);
    mbedtls_ssl_conf_ca_chain(&tls->config, &tls->ca, NULL);
    mbedtls_ssl_conf_authmode(&tls->config, MBEDTLS_SSL_VERIFY_REQUIRED);
    return TERN_OK;
}

void bench_tls_clear(struct bench_tls *tls)
{
    mbedtls_ssl_config_free(&tls->config);
    mbedtls_x509_crt_free(&tls->ca);
    tern_mbedtls_random_free(&tls->random);
}

// session: a session to resume; NULL: none.
static enum tern_result open_connection(struct bench_tls *tls, struct bench_connection *connection,
                                        const mbedtls_ssl_session *session)
{
    mbedtls_net_init(&connection->net);
    mbedtls_ssl_init(&connection->ssl);
    connection->open = true;
    connection->message = NULL;
    connection->message_size = 0;
    if (mbedtls_net_connect(&connection->net, tls->host, tls->port, MBEDTLS_NET_PROTO_TCP) != 0) {
        bench_close(connection);
        return TERN_ERR_NETWORK;
    }
    // The certificate is checked against "localhost": mbedTLS 2.28 does not support IP addresses there.
    if (mbedtls_ssl_setup(&connection->ssl, &tls->config) != 0 ||
        mbedtls_ssl_set_hostname(&connection->ssl, "localhost") != 0 ||
        (session != NULL && mbedtls_ssl_set_session(&connection->ssl, session) != 0)) {
        bench_close(connection);
        return TERN_ERR_TLS;
    }
    mbedtls_ssl_set_bio(&connection->ssl, &connection->net, mbedtls_net_send, mbedtls_net_recv,
                        NULL);
    if (mbedtls_ssl_handshake(&connection->ssl) != 0) {
        bench_close(connection);
        return TERN_ERR_TLS;
    }
    return TERN_OK;
}

enum tern_result bench_connect(struct bench_tls *tls, struct bench_connection *connection)
{
    return open_connection(tls, connection, NULL);
}

enum tern_result bench_resume(struct bench_tls *tls, struct bench_connection *connection,
                              const mbedtls_ssl_session *session)
{
    return open_connection(tls, connection, session);
}

void bench_close(struct bench_connection *connection)
{
    if (connection->open) {
        mbedtls_ssl_close_notify(&connection->ssl);
        mbedtls_ssl_free(&connection->ssl);
        mbedtls_net_free(&connection->net);
        free(connection->message);
        connection->open = false;
    }
}

static enum tern_result write_all(struct bench_connection *connection, const uint8_t *data,
                                  size_t len)
{
    for (size_t done = 0; done < len;) {
        int wrote = mbedtls_ssl_write(&connection->ssl, data + done, len - done);
        if (wrote <= 0) {
            return TERN_ERR_NETWORK;
        }
        done += (size_t)wrote;
    }
    return TERN_OK;
}

// Returns the value of a header; NULL: absent.
static const char *header(const char *headers, const char *name)
{
    const size_t len = strlen(name);
    for (const char *line = headers; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            return line + len + 1;
        }
    }
    return NULL;
}

// Returns the value of content-length; 0: absent.
static size_t content_length(const char *headers)
{
    const char *value = header(headers, "content-length");
    return value == NULL ? 0 : strtoul(value, NULL, 10);
}

// Grows the message buffer to more than `size` bytes, and keeps its content.
static enum tern_result make_room(struct bench_connection *connection, size_t size)
{
    if (size < connection->message_size) {
        return TERN_OK;
    }
    char *grown = realloc(connection->message, size + HEAD_MAX);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    connection->message = grown;
    connection->message_size = size + HEAD_MAX;
    return TERN_OK;
}

static enum tern_result read_reply(struct bench_connection *connection, int *status, uint8_t *reply,
                                   size_t *len)
{
    size_t have = 0;
    size_t want = 0; // total bytes; 0 until the headers are complete
    size_t head = 0;
    while (want == 0 || have < want) {
        TERN_TRY(make_room(connection, want > have ? want : have + HEAD_MAX));
        char *text = connection->message;
        int got = mbedtls_ssl_read(&connection->ssl, (uint8_t *)text + have,
                                   connection->message_size - 1 - have);
        if (got <= 0) {
            return TERN_ERR_NETWORK;
        }
        have += (size_t)got;
        text[have] = '\0';
        char *end = want == 0 ? strstr(text, "\r\n\r\n") : NULL;
        if (end != NULL) {
            end[2] = '\0';
            head = (size_t)(end + 4 - text);
            want = head + content_length(text);
        }
    }
    const char *text = connection->message;
    size_t body = want - head;
    if (sscanf(text, "HTTP/1.1 %d", status) != 1 || body > *len) {
        return TERN_ERR_HTTP;
    }
    connection->retry_after = header(text, "retry-after") != NULL;
    memcpy(reply, text + head, body);
    *len = body;
    return TERN_OK;
}

enum tern_result bench_exchange(struct bench_connection *connection, const char *method,
                                const char *path, const char *token, const uint8_t *body,
                                size_t body_len, int *status, uint8_t *reply, size_t *len)
{
    TERN_TRY(make_room(connection, HEAD_MAX + body_len));
    char *request = connection->message;
    int head = snprintf(request, HEAD_MAX,
                        "%s %s HTTP/1.1\r\nHost: a\r\n%s%s%sContent-Length: %zu\r\n\r\n", method,
                        path, token != NULL ? "Authorization: Bearer " : "",
                        token != NULL ? token : "", token != NULL ? "\r\n" : "", body_len);
    if (head < 0 || head >= HEAD_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    if (body_len > 0) {
        memcpy(request + head, body, body_len);
    }
    TERN_TRY(write_all(connection, (const uint8_t *)request, (size_t)head + body_len));
    return read_reply(connection, status, reply, len);
}
