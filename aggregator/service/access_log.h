// Writes log lines about requests and handshakes within limits, so that a flood does not fill the disk, and counts the
// dropped lines. Any thread.
#ifndef TERN_ACCESS_LOG_H
#define TERN_ACCESS_LOG_H

#include "service/gate.h"
#include "service/service.h"
#include <pthread.h>
#include <stdatomic.h>

struct tern_access_log {
    pthread_mutex_t lock;
    _Atomic uint32_t requests; // enum tern_logged_requests
    uint32_t per_minute;
    struct tern_allowance lines;
    struct tern_allowance failures;
    struct tern_address_allowances addresses; // of failures
    uint64_t lines_dropped;                   // since reported_ms
    uint64_t failures_dropped;
    uint64_t reported_ms;
};

// *log must be all zero. TERN_ERR_IO: no random bytes are available
TERN_MUST_USE enum tern_result tern_access_log_init(struct tern_access_log *log,
                                                    const struct tern_service_logging *logging);
void tern_access_log_free(struct tern_access_log *log);

void tern_access_log_set(struct tern_access_log *log, const struct tern_service_logging *logging);

// Logs an answered request. listener: "clients" or "admin".
void tern_access_log_request(struct tern_access_log *log, const char *listener,
                             const struct tern_http_answered *answered, uint64_t now_ms);

// Logs that a client sent its own token with a certificate of another name.
void tern_access_log_other_certificate(struct tern_access_log *log,
                                       const struct tern_http_request *request, uint64_t client,
                                       uint64_t now_ms);

// Logs a failed TLS handshake of the clients' listener. why: the fault of the peer's certificate; "" = another cause.
void tern_access_log_handshake(struct tern_access_log *log, const char *peer, const char *why,
                               uint64_t now_ms);

// Logs how many lines were dropped, at most once a minute. now_ms: UINT64_MAX = at once.
void tern_access_log_report_dropped(struct tern_access_log *log, uint64_t now_ms);

#endif
