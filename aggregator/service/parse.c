// Taking requests apart, on the thread that has received them: of a listener, or that which takes what other aggregators
// have received.
#include "service/parse.h"

#include "service/caches.h"

// The meter has a row for each round of a client: of rounds that there are, not of any number.
void tern_request_tag_round(struct tern_service *service, uint32_t round, struct tern_http_tag *tag)
{
    tag->round = tern_federation_had_round(service->federation, round) ? round : 0;
}

static uint32_t enrollment_over_rate(struct tern_service *service,
                                     const struct tern_http_request *http, uint64_t now_ms)
{
    tern_EnrollRequest message;
    uint8_t code_hash[TERN_SHA256_SIZE];
    const bool is_read =
        tern_wire_decode_enroll_request(http->body, http->body_len, &message) == TERN_OK;
    if (is_read) {
        tern_join_code_hash(message.join_code, code_hash);
    }
    return tern_gate_enrollment(service->gate, &http->address, is_read ? code_hash : NULL, now_ms);
}

// Seconds that the peer has to wait before another request, 0 = none. What a cache fetches for a client was
// asked about before.
uint32_t tern_request_over_rate(struct tern_service *service, const struct tern_http_request *http,
                                uint64_t client, enum request_kind kind)
{
    if (kind == REQUEST_DOWNLOAD && http->of_cache) {
        return 0;
    }
    uint64_t now = tern_service_monotonic(service);
    uint32_t wait = kind == REQUEST_ENROLL ? enrollment_over_rate(service, http, now)
                                           : tern_gate_request(service->gate, client, now);
    if (wait != 0) {
        atomic_fetch_add(&service->rate_limited, 1);
    }
    return wait;
}

static enum tern_result parse_update(struct tern_service *service,
                                     const struct tern_http_request *http, struct request *request)
{
    struct tern_incoming *update = &request->u.update;
    update->client = request->client;
    update->body = (struct tern_span){http->body, http->body_len};
    TERN_TRY(tern_path_parse_update(http->path, &update->round, &update->sequence));
    tern_federation_read_update(service->federation, update);
    tern_request_tag_round(service, update->round, &request->tag);
    request->tag.payload_up = update->parsed == TERN_OK ? update->payload : 0;
    return update->parsed;
}

static enum tern_result parse_progress(struct tern_service *service,
                                       const struct tern_http_request *http,
                                       struct request *request)
{
    struct progress_request *progress = &request->u.progress;
    TERN_TRY(tern_path_parse_update(http->path, &progress->round, &progress->sequence));
    tern_request_tag_round(service, progress->round, &request->tag);
    return TERN_OK;
}

static enum tern_result parse_statistics(const struct tern_http_request *http,
                                         struct tern_incoming_statistics *statistics)
{
    statistics->body = (struct tern_span){http->body, http->body_len};
    statistics->parsed = tern_wire_decode_statistics(http->body, http->body_len,
                                                     &statistics->message, &statistics->columns);
    return statistics->parsed;
}

static enum tern_result parse_authorize(const struct tern_http_request *http,
                                        struct download_request *wanted)
{
    wanted->from = http->range_from;
    TERN_TRY(tern_cache_parse_path(http->path, wanted->sha256));
    wanted->request_bytes = tern_cache_request_bytes(http, wanted->sha256);
    return TERN_OK;
}

enum tern_result tern_request_parse(struct tern_service *service,
                                    const struct tern_http_request *http, struct request *request)
{
    switch (request->kind) {
    case REQUEST_ENROLL:
        return tern_wire_decode_enroll_request(http->body, http->body_len, &request->u.enroll);
    case REQUEST_CHECKIN:
        return tern_wire_decode_checkin_request(http->body, http->body_len, &request->u.checkin);
    case REQUEST_DOWNLOAD:
        request->u.download.from = http->range_from;
        return tern_path_parse_download(http->path, request->u.download.sha256);
    case REQUEST_AUTHORIZE:
        return parse_authorize(http, &request->u.download);
    case REQUEST_UPDATE:
        return parse_update(service, http, request);
    case REQUEST_PROGRESS:
        return parse_progress(service, http, request);
    case REQUEST_STATISTICS:
        return parse_statistics(http, &request->u.statistics);
    case REQUEST_SCALING:
        return TERN_OK;
    case REQUEST_JOB:
    case REQUEST_METER:
        break;
    }
    return TERN_ERR_ARGUMENT;
}
