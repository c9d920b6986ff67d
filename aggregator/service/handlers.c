// What each kind of request is handed to, and what becomes its answer.
#include "service/internal.h"

#include <string.h>

// A client that shows a certificate has its name from that.
static void take_name(tern_EnrollRequest *message, const char *certificate)
{
    _Static_assert(sizeof message->name >= TERN_HTTP_NAME_SIZE, "every common name fits");
    if (certificate[0] != '\0') {
        memset(message->name, 0, sizeof message->name);
        memcpy(message->name, certificate, strlen(certificate));
    }
}

static enum tern_result handle_enroll(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_refusal refusal = {.result = request->parsed};
    tern_EnrollReply reply;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    if (refusal.result == TERN_OK) {
        const struct tern_http_request *http = tern_request_http(request);
        take_name(&request->u.enroll, http->certificate);
        TERN_TRY(tern_federation_enroll(service->federation, &request->u.enroll, http->peer, now,
                                        &reply, &refusal));
    }
    if (refusal.result == TERN_ERR_UNAUTHORIZED) {
        atomic_fetch_add(&service->unauthorized, 1);
    }
    if (refusal.result != TERN_OK) {
        tern_answer_refused(request, &refusal);
        return TERN_OK;
    }
    service->counters.enrolled++;
    service->has_enrolled = true;
    request->tag.client = reply.client_id;
    enum tern_result encoded = tern_wire_encode_enroll_reply(&reply, body, sizeof body, &len);
    tern_answer_message(request, encoded, body, len);
    return TERN_OK;
}

static enum tern_result handle_checkin(struct tern_service *service, struct request *request,
                                       uint64_t now)
{
    const tern_CheckinRequest *message = &request->u.checkin;
    struct tern_refusal refusal = {.result = TERN_OK};
    TERN_TRY(tern_federation_checkin(service->federation, request->client, request->parsed, message,
                                     now, &refusal));
    if (refusal.result != TERN_OK) {
        tern_answer_refused(request, &refusal);
    }
    uint64_t limit = service->config.limits.long_poll_ms;
    request->came_ms = service->batch_ms;
    request->hold_until_ms =
        service->batch_ms + (message->wait_ms < limit ? message->wait_ms : limit);
    return TERN_OK;
}

static void count_download(struct tern_service *service, struct request *request)
{
    *(request->tag.of_cache ? &service->counters.cache_fills : &service->counters.downloads) += 1;
    request->tag.round = tern_federation_round(service->federation);
}

static enum tern_result handle_download(struct tern_service *service, struct request *request)
{
    const struct download_request *wanted = &request->u.download;
    struct tern_blob *blob = NULL;
    struct tern_download_facts facts;
    enum tern_result found = request->parsed;
    const bool names = found == TERN_OK && request->relayed != NULL;
    if (names) {
        const enum tern_result known =
            tern_federation_find_stored_blob(service->federation, wanted->sha256, &facts);
        TERN_TRY(tern_db_may_miss(known));
        if (known == TERN_OK) {
            count_download(service, request);
            tern_answer_named(request, wanted->sha256, wanted->from, &facts);
            return TERN_OK;
        }
    }
    if (found == TERN_OK) {
        found = tern_federation_blob(service->federation, wanted->sha256, &blob, &facts);
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND && found != TERN_ERR_BUSY) {
            return found;
        }
    }
    if (found != TERN_OK) {
        tern_answer_refused(request, &(struct tern_refusal){.result = found});
        return TERN_OK;
    }
    count_download(service, request);
    tern_answer_blob(request, blob, wanted->from, &facts);
    return TERN_OK;
}

static enum tern_result handle_authorize(struct tern_service *service, struct request *request)
{
    struct tern_download_facts facts;
    enum tern_result found = request->parsed;
    if (found == TERN_OK) {
        found = tern_federation_find_blob(service->federation, request->u.download.sha256, &facts);
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    if (found != TERN_OK) {
        tern_answer_refused(request, &(struct tern_refusal){.result = found});
        return TERN_OK;
    }
    service->counters.downloads++;
    service->counters.authorized++;
    request->tag.round = tern_federation_round(service->federation);
    tern_answer_authorized(request, &facts);
    return TERN_OK;
}

static enum tern_result handle_update(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_refusal refusal = {.result = TERN_OK};
    TERN_TRY(tern_federation_update(service->federation, &request->u.update, now,
                                    &request->duplicate, &refusal));
    if (request->relayed == NULL) {
        tern_http_exchange_rest(request->exchange); // the batch may have many
    }
    if (refusal.result == TERN_ERR_BUSY) {
        tern_answer_unavailable(request);
    } else if (refusal.result != TERN_OK) {
        tern_answer_refused(request, &refusal);
    }
    return TERN_OK;
}

// next: what it should do now, or NULL: it asks.
static void say_counted(struct tern_service *service, struct request *request,
                        const struct tern_next *next)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    reply.status =
        request->duplicate ? tern_UpdateStatus_UPDATE_DUPLICATE : tern_UpdateStatus_UPDATE_ACCEPTED;
    reply.has_next = next != NULL;
    if (next != NULL) {
        reply.next = next->reply;
    }
    enum tern_result encoded = tern_wire_encode_update_reply(&reply, body, sizeof body, &len);
    if (encoded == TERN_OK && request->duplicate) {
        service->counters.updates_duplicate++;
    } else if (encoded == TERN_OK) {
        service->counters.updates_accepted++;
    }
    tern_answer_message(request, encoded, body, len);
}

enum tern_result tern_service_settle_update(struct tern_service *service, struct request *request,
                                            uint64_t now)
{
    struct tern_next next;
    TERN_TRY(tern_federation_next(service->federation, request->client, now, &next));
    say_counted(service, request, &next);
    return TERN_OK;
}

void tern_service_answer_failed(struct tern_service *service,
                                void (*answer)(struct request *request))
{
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        if (request->stored) {
            say_counted(service, request, NULL);
        } else {
            answer(request);
        }
    }
}

void tern_service_say_unfinished(struct request *request)
{
    const struct tern_http_unfinished *unfinished = &request->u.progress.unfinished;
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    uint8_t body[128];
    size_t len = 0;
    reply.status = tern_UpdateStatus_UPDATE_UNFINISHED;
    reply.received = unfinished->len;
    reply.sha256.size = TERN_SHA256_SIZE;
    memcpy(reply.sha256.bytes, unfinished->sha256, TERN_SHA256_SIZE);
    const enum tern_result encoded = tern_wire_encode_update_reply(&reply, body, sizeof body, &len);
    tern_answer_message(request, encoded, body, len);
}

// Of an update that was accepted, but whose client did not hear of it, as of one that came twice.
static enum tern_result say_accepted(struct tern_service *service, struct request *request,
                                     const uint8_t sha256[TERN_SHA256_SIZE], uint64_t now)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    struct tern_next next;
    TERN_TRY(tern_federation_next(service->federation, request->client, now, &next));
    reply.status = tern_UpdateStatus_UPDATE_DUPLICATE;
    reply.has_next = true;
    reply.next = next.reply;
    reply.sha256.size = TERN_SHA256_SIZE;
    memcpy(reply.sha256.bytes, sha256, TERN_SHA256_SIZE);
    const enum tern_result encoded = tern_wire_encode_update_reply(&reply, body, sizeof body, &len);
    tern_answer_message(request, encoded, body, len);
    return TERN_OK;
}

static enum tern_result handle_progress(struct tern_service *service, struct request *request,
                                        uint64_t now)
{
    const struct progress_request *progress = &request->u.progress;
    uint8_t sha256[TERN_SHA256_SIZE];
    if (progress->kept) {
        tern_service_say_unfinished(request);
        return TERN_OK;
    }
    const enum tern_result found =
        tern_federation_stored(service->federation, request->client, progress->round, sha256);
    if (found == TERN_ERR_NOT_FOUND) {
        tern_answer_error(request, 404, found);
        return TERN_OK;
    }
    TERN_TRY(found);
    return say_accepted(service, request, sha256, now);
}

// Its client then checks in, and waits there for the others.
static enum tern_result handle_statistics(struct tern_service *service, struct request *request,
                                          uint64_t now)
{
    struct tern_refusal refusal = {.result = TERN_OK};
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    uint8_t body[16];
    size_t len = 0;
    bool duplicate = false;
    TERN_TRY(tern_federation_statistics(service->federation, request->client,
                                        &request->u.statistics, now, &duplicate, &refusal));
    if (refusal.result != TERN_OK) {
        tern_answer_refused(request, &refusal);
        return TERN_OK;
    }
    reply.status =
        duplicate ? tern_UpdateStatus_UPDATE_DUPLICATE : tern_UpdateStatus_UPDATE_ACCEPTED;
    const enum tern_result encoded = tern_wire_encode_update_reply(&reply, body, sizeof body, &len);
    tern_answer_message(request, encoded, body, len);
    return TERN_OK;
}

static enum tern_result handle_scaling(struct tern_service *service, struct request *request)
{
    tern_CheckinReply reply = tern_CheckinReply_init_zero;
    const struct tern_span none = {NULL, 0};
    uint8_t body[128];
    size_t len = 0;
    tern_federation_scaling_status(service->federation, request->client, &reply);
    const enum tern_result encoded =
        tern_wire_encode_checkin_reply(&reply, none, body, sizeof body, &len);
    tern_answer_message(request, encoded, body, len);
    return TERN_OK;
}

static enum tern_result handle_job(struct tern_service *service, struct request *request,
                                   uint64_t now)
{
    struct job_request *job = &request->u.job;
    request->answered = true;
    return job->job(service, service->db, now, job->ctx, &request->reply);
}

// Of rounds that there are: the meter has a row for each of a client.
static enum tern_result handle_meter(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_request_http(request);
    request->answered = true;
    for (size_t at = 0; at + TERN_DB_METER_PACKED <= http->body_len; at += TERN_DB_METER_PACKED) {
        struct tern_db_meter row;
        if (tern_db_meter_unpack(http->body + at, &row) != TERN_OK) {
            tern_log(TERN_LOG_ERROR, "meter-damaged", "node=%llu",
                     (unsigned long long)request->relayed->node);
            return TERN_OK;
        }
        row.round = tern_federation_had_round(service->federation, row.round) ? row.round : 0;
        TERN_TRY(tern_db_meter_add(service->db, &row));
    }
    return TERN_OK;
}

// What must not be done twice is done by who takes its row away: another aggregator may have led meanwhile, or its node
// have given it up.
static enum tern_result claim(struct tern_service *service, struct request *request, bool *is_there)
{
    struct relayed_request *relayed = request->relayed;
    if (relayed == NULL || (request->kind != REQUEST_METER && request->kind != REQUEST_ENROLL)) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_relayed_drop(service->db, relayed->node, relayed->number, is_there));
    relayed->claimed = *is_there;
    return TERN_OK;
}

// The last word on who may come in: the gate's table may be older than a revocation.
static bool is_admitted(struct tern_service *service, const struct request *request)
{
    return request->kind == REQUEST_ENROLL || request->kind == REQUEST_JOB ||
           request->kind == REQUEST_METER ||
           tern_federation_admits(service->federation, request->client);
}

enum tern_result tern_service_handle(struct tern_service *service, struct request *request,
                                     uint64_t now)
{
    if (!is_admitted(service, request)) {
        atomic_fetch_add(&service->unauthorized, 1);
        tern_answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    if (request->relayed != NULL && request->relayed->over_rate_s != 0) {
        tern_answer_error(request, 429, TERN_ERR_BUSY);
        request->reply.retry_after_s = request->relayed->over_rate_s;
        return TERN_OK;
    }
    bool is_there = true;
    TERN_TRY(claim(service, request, &is_there));
    if (!is_there) {
        tern_answer_unavailable(request);
        return TERN_OK;
    }
    switch (request->kind) {
    case REQUEST_METER:
        return handle_meter(service, request);
    case REQUEST_ENROLL:
        return handle_enroll(service, request, now);
    case REQUEST_CHECKIN:
        return handle_checkin(service, request, now);
    case REQUEST_DOWNLOAD:
        return handle_download(service, request);
    case REQUEST_AUTHORIZE:
        return handle_authorize(service, request);
    case REQUEST_UPDATE:
        return handle_update(service, request, now);
    case REQUEST_PROGRESS:
        return handle_progress(service, request, now);
    case REQUEST_STATISTICS:
        return handle_statistics(service, request, now);
    case REQUEST_SCALING:
        return handle_scaling(service, request);
    case REQUEST_JOB:
        break;
    }
    return handle_job(service, request, now);
}
