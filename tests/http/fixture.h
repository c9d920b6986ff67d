// A listener with a small service behind it, for tests: certificates in a temporary folder, a few
// paths with known behaviour, and what the listener called, counted. One fixture at a time.
#ifndef TERN_TEST_HTTP_FIXTURE_H
#define TERN_TEST_HTTP_FIXTURE_H

#include "http/http.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

// The service:
//   any      /echo     200 with the request's body
//   any      /facts    200 with "METHOD PATH AUTHORIZATION RANGE"; a body of FACTS_BODY bytes at most
//   GET      /blob     200 or 206: BLOB_SIZE bytes, byte i = (uint8_t)(i * 7), cacheable
//   any      /thread   200 from another thread, a moment later
//   any      /held     kept until fixture_release()
//   any      /client/N 200, tagged with client N, round 3, upload, payload up = body, down = 1
//   PUT      /upload/N as /client/N; client N owns the body, unless fixture->disowned
//   GET      /upload/N 200 with "BYTES SHA256" of what is kept of that body, or 404
//   any      /who      200 with the client that a pre-shared key proved, as a number
//   any      /certificate  200 with the common name of the client's certificate
//   anything else      404 with an empty body
// on_headers refuses "Authorization: Bearer bad" with 401, and knows "Bearer good" to be client 7's.
#define BLOB_SIZE 100000u
#define FACTS_BODY 10u

#define PSK_CLIENTS 10u

struct fixture {
    char folder[64];
    char certificate[96];
    char root[96]; // of the CA, for clients over TLS
    char private_key[96];
    char tickets[96];
    char ticket_clients[96];
    struct tern_http_server *server;
    uint16_t port;

    _Atomic uint32_t disowned; // client whose uploads the handler rejects; 0 = none
    _Atomic uint32_t revoked;  // client that may not come in; 0 = none
    _Atomic uint32_t headers_seen;
    _Atomic uint32_t requests_seen;
    _Atomic uint64_t body_bytes_seen; // of whole requests

    pthread_mutex_t lock; // guards all below
    pthread_cond_t changed;
    struct tern_http_exchange *held;
    struct tern_http_exchange *handed; // to the other thread
    bool stops;
    pthread_t thread;
    struct tern_blob *blob;
    bool offers_psk; // from the next start of a listener on
    bool has_psk[PSK_CLIENTS];
    uint8_t psk[PSK_CLIENTS][TERN_HTTP_PSK_SIZE];
    // What was metered, by client (0..9), purpose and direction.
    struct tern_meter metered[10];
    uint64_t cache_sends; // of all tags that were metered
    uint64_t cache_receives;
    uint64_t not_of_cache; // reports
};

// Makes the folder and, once per process, the certificate. config->address, port, certificate
// and private_key of its files, and ticket_keys are filled in unless set; plain = no certificate.
void fixture_start(struct fixture *fixture, struct tern_http_config *config, bool plain);
void fixture_stop(struct fixture *fixture);

// The same folder and certificate, a new listener.
void fixture_restart(struct fixture *fixture, struct tern_http_config *config);

// Returns the counters of the running listener.
struct tern_http_counters fixture_counters(const struct fixture *fixture);

// Makes a CA (ca.pem), and a certificate of it for localhost (server.pem) with its key (server.key), in the folder.
void fixture_certificate(const char *folder);

// Waits until an exchange is held, at most five seconds. False when none came.
bool fixture_wait_held(struct fixture *fixture);

// Replies to the held exchange with "late".
void fixture_release(struct fixture *fixture);

// Waits until *counter reaches value, at most five seconds.
bool fixture_wait_count(const _Atomic uint32_t *counter, uint32_t value);

// Waits until no connection is open.
bool fixture_wait_idle(struct fixture *fixture);

// All that was metered.
struct tern_meter fixture_metered(struct fixture *fixture, uint64_t client);

void sleep_ms(unsigned ms);
uint64_t now_ms(void);

#endif
