#include "service/access_log.h"

#include "hosted/log.h"

// Limits of lines about wrong credentials, per minute.
#define FAILURES_PER_ADDRESS 10
#define FAILURES_PER_MINUTE 600

#define REPORT_MS 60000

enum tern_result tern_access_log_init(struct tern_access_log *log,
                                      const struct tern_service_logging *logging)
{
    TERN_TRY(tern_address_allowances_init(&log->addresses));
    pthread_mutex_init(&log->lock, NULL);
    tern_access_log_set(log, logging);
    return TERN_OK;
}

void tern_access_log_free(struct tern_access_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

void tern_access_log_set(struct tern_access_log *log, const struct tern_service_logging *logging)
{
    pthread_mutex_lock(&log->lock);
    atomic_store(&log->requests, (uint32_t)logging->requests);
    log->per_minute = logging->requests_per_minute;
    pthread_mutex_unlock(&log->lock);
}

static bool has_line(struct tern_access_log *log, const struct tern_http_answered *answered)
{
    switch ((enum tern_logged_requests)atomic_load(&log->requests)) {
    case TERN_LOG_NO_REQUESTS:
        return answered->status == 401;
    case TERN_LOG_REFUSED_REQUESTS:
        return answered->status >= 400;
    case TERN_LOG_ALL_REQUESTS:
        break;
    }
    return true;
}

// Takes a line of the address first, so that an address at its limit uses up no lines of other addresses.
static bool take_failure(struct tern_access_log *log, const struct tern_address *address,
                         uint64_t now_ms)
{
    struct tern_allowance *own = tern_allowance_of(&log->addresses, address, NULL);
    return tern_allowance_take(own, FAILURES_PER_ADDRESS, now_ms) == 0 &&
           tern_allowance_take(&log->failures, FAILURES_PER_MINUTE, now_ms) == 0;
}

static bool take_line(struct tern_access_log *log, const struct tern_http_answered *answered,
                      uint64_t now_ms)
{
    const bool failure = answered->status == 401;
    pthread_mutex_lock(&log->lock);
    const bool may = failure ? take_failure(log, &answered->request->address, now_ms)
                             : tern_allowance_take(&log->lines, log->per_minute, now_ms) == 0;
    log->failures_dropped += failure && !may;
    log->lines_dropped += !failure && !may;
    pthread_mutex_unlock(&log->lock);
    return may;
}

void tern_access_log_request(struct tern_access_log *log, const char *listener,
                             const struct tern_http_answered *answered, uint64_t now_ms)
{
    const struct tern_http_request *request = answered->request;
    if (!has_line(log, answered) || !take_line(log, answered, now_ms)) {
        return;
    }
    const bool failure = answered->status == 401;
    // All values before the path are checked or made by this program, so that filters can match them by position.
    tern_log(failure ? TERN_LOG_WARN : TERN_LOG_INFO, failure ? "authentication-failed" : "request",
             "listener=%s peer=%s request=%llu client=%llu status=%d ms=%llu received=%llu "
             "sends=%llu method=%s path=%s",
             listener, request->peer, (unsigned long long)request->id,
             (unsigned long long)answered->client, answered->status,
             (unsigned long long)answered->ms, (unsigned long long)answered->received,
             (unsigned long long)answered->sends, TERN_LOG_TEXT(request->method),
             TERN_LOG_TEXT(request->path));
}

void tern_access_log_other_certificate(struct tern_access_log *log,
                                       const struct tern_http_request *request, uint64_t client,
                                       uint64_t now_ms)
{
    pthread_mutex_lock(&log->lock);
    const bool may = take_failure(log, &request->address, now_ms);
    pthread_mutex_unlock(&log->lock);
    if (may) {
        tern_log(TERN_LOG_WARN, "certificate-name-mismatch",
                 "listener=clients peer=%s request=%llu client=%llu certificate=%s", request->peer,
                 (unsigned long long)request->id, (unsigned long long)client,
                 TERN_LOG_TEXT(request->certificate));
    }
}

void tern_access_log_handshake(struct tern_access_log *log, const char *peer, const char *why,
                               uint64_t now_ms)
{
    if (atomic_load(&log->requests) == TERN_LOG_NO_REQUESTS) {
        return;
    }
    pthread_mutex_lock(&log->lock);
    const bool may = tern_allowance_take(&log->lines, log->per_minute, now_ms) == 0;
    log->lines_dropped += !may;
    pthread_mutex_unlock(&log->lock);
    if (may && why[0] != '\0') {
        tern_log(TERN_LOG_WARN, "handshake-failed", "listener=clients peer=%s reason=%s", peer,
                 TERN_LOG_TEXT(why));
    } else if (may) {
        tern_log(TERN_LOG_INFO, "handshake-failed", "listener=clients peer=%s", peer);
    }
}

void tern_access_log_report_dropped(struct tern_access_log *log, uint64_t now_ms)
{
    pthread_mutex_lock(&log->lock);
    const uint64_t lines = log->lines_dropped;
    const uint64_t failures = log->failures_dropped;
    const bool due = lines + failures > 0 && now_ms - log->reported_ms >= REPORT_MS;
    if (due) {
        log->lines_dropped = 0;
        log->failures_dropped = 0;
        log->reported_ms = now_ms;
    }
    pthread_mutex_unlock(&log->lock);
    if (due) {
        tern_log(TERN_LOG_WARN, "log-lines-dropped", "requests=%llu authentication_failures=%llu",
                 (unsigned long long)lines, (unsigned long long)failures);
    }
}
