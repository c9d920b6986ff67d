// A small blocking HTTPS client for load tests: cheap per connection, so that most of the machine's time goes to the
// aggregator. Uses mbedTLS; each struct belongs to one thread.
#ifndef TERN_BENCH_HTTPS_H
#define TERN_BENCH_HTTPS_H

#include "hosted/mbedtls_versions.h"
#include "result.h"
#include <mbedtls/net_sockets.h>
#include <stdbool.h>
#include <stdint.h>

// State that the connections of one thread share.
struct bench_tls {
    struct tern_mbedtls_random random;
    mbedtls_x509_crt ca;
    mbedtls_ssl_config config;
    const char *host;
    const char *port;
};

// host and port are borrowed. ca: PEM file.
TERN_MUST_USE enum tern_result bench_tls_init(struct bench_tls *tls, const char *host,
                                              const char *port, const char *ca);
void bench_tls_clear(struct bench_tls *tls);

struct bench_connection {
    mbedtls_net_context net;
    mbedtls_ssl_context ssl;
    bool open;
    char *message; // buffer for a request or a reply; grows as needed
    size_t message_size;
    bool retry_after; // the last reply had a Retry-After header
};

TERN_MUST_USE enum tern_result bench_connect(struct bench_tls *tls,
                                             struct bench_connection *connection);
// Connects and resumes a session of an earlier connection.
TERN_MUST_USE enum tern_result bench_resume(struct bench_tls *tls,
                                            struct bench_connection *connection,
                                            const mbedtls_ssl_session *session);
void bench_close(struct bench_connection *connection);

// Sends a request and reads the whole reply. token: NULL sends no token. *len: in: size of reply; out: bytes of the reply's
// body.
TERN_MUST_USE enum tern_result bench_exchange(struct bench_connection *connection,
                                              const char *method, const char *path,
                                              const char *token, const uint8_t *body,
                                              size_t body_len, int *status, uint8_t *reply,
                                              size_t *len);

#endif
