// What each kind of request is handed to, and what becomes its answer.
#include "service/internal.h"

#include <string.h>

static enum tern_result handle_enroll(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_refusal refusal = {.result = request->parsed};
    tern_EnrollReply reply;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    if (refusal.result == TERN_OK) {
        TERN_TRY(tern_federation_enroll(service->federation, &request->u.enroll,
                                        tern_http_exchange_request(request->exchange)->peer, now,
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
    request->hold_until_ms =
        service->batch_ms + (message->wait_ms < limit ? message->wait_ms : limit);
    return TERN_OK;
}

static enum tern_result handle_download(struct tern_service *service, struct request *request)
{
    const struct download_request *wanted = &request->u.download;
    struct tern_blob *blob = NULL;
    uint32_t payload = 0;
    enum tern_result found = request->parsed;
    if (found == TERN_OK) {
        found = tern_federation_blob(service->federation, wanted->sha256, &blob, &payload);
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    if (found != TERN_OK) {
        tern_answer_refused(request, &(struct tern_refusal){.result = found});
        return TERN_OK;
    }
    service->counters.downloads++;
    request->tag.round = tern_federation_round(service->federation);
    tern_answer_blob(request, blob, wanted->from, payload);
    return TERN_OK;
}

static enum tern_result handle_update(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_refusal refusal = {.result = TERN_OK};
    TERN_TRY(tern_federation_update(service->federation, &request->u.update, now,
                                    &request->duplicate, &refusal));
    tern_http_exchange_rest(request->exchange); // the batch may have many
    if (refusal.result == TERN_ERR_BUSY) {
        tern_answer_unavailable(request);
    } else if (refusal.result != TERN_OK) {
        tern_answer_refused(request, &refusal);
    }
    return TERN_OK;
}

enum tern_result tern_service_settle_update(struct tern_service *service, struct request *request,
                                            uint64_t now)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    struct tern_next next;
    reply.status =
        request->duplicate ? tern_UpdateStatus_UPDATE_DUPLICATE : tern_UpdateStatus_UPDATE_ACCEPTED;
    reply.has_next = true;
    TERN_TRY(tern_federation_next(service->federation, request->client, now, &next));
    reply.next = next.reply;
    enum tern_result encoded = tern_wire_encode_update_reply(&reply, body, sizeof body, &len);
    if (encoded == TERN_OK && request->duplicate) {
        service->counters.updates_duplicate++;
    } else if (encoded == TERN_OK) {
        service->counters.updates_accepted++;
    }
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

// The last word on who may come in: the gate's table may be older than a revocation.
static bool is_admitted(struct tern_service *service, const struct request *request)
{
    return request->kind == REQUEST_ENROLL || request->kind == REQUEST_JOB ||
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
    switch (request->kind) {
    case REQUEST_ENROLL:
        return handle_enroll(service, request, now);
    case REQUEST_CHECKIN:
        return handle_checkin(service, request, now);
    case REQUEST_DOWNLOAD:
        return handle_download(service, request);
    case REQUEST_UPDATE:
        return handle_update(service, request, now);
    case REQUEST_JOB:
        break;
    }
    return handle_job(service, request, now);
}
