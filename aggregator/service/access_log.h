// Which requests get a line in the log, and how many: a flood of them fills no disk, and what was left
// out is counted. Safe from any thread.
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
    uint64_t lines_left_out;                  // since they were last told
    uint64_t failures_left_out;
    uint64_t told_ms;
};

// *log is all zero. TERN_ERR_IO: there are no random bytes
TERN_MUST_USE enum tern_result tern_access_log_init(struct tern_access_log *log,
                                                    const struct tern_service_logging *logging);
void tern_access_log_free(struct tern_access_log *log);

void tern_access_log_set(struct tern_access_log *log, const struct tern_service_logging *logging);

// listener: "clients" or "admin".
void tern_access_log_answered(struct tern_access_log *log, const char *listener,
                              const struct tern_http_answered *answered, uint64_t now_ms);

// A client's right token came with the certificate of another name.
void tern_access_log_misnamed(struct tern_access_log *log, const struct tern_http_request *request,
                              uint64_t client, uint64_t now_ms);

// A peer of the clients' listener has failed in its handshake. why: what is wrong with its certificate; ""
// where that is not the reason.
void tern_access_log_handshake(struct tern_access_log *log, const char *peer, const char *why,
                               uint64_t now_ms);

// Says how many lines were left out, at most once a minute. UINT64_MAX: whenever that was.
void tern_access_log_tell(struct tern_access_log *log, uint64_t now_ms);

#endif
