#include "service/internal.h"

#include "hosted/random.h"
#include "util/bytes.h"
#include <string.h>

static enum tern_result add_client(struct tern_service *service, const tern_EnrollRequest *message,
                                   const uint8_t token[TERN_WIRE_TOKEN_BYTES], uint64_t now,
                                   struct tern_db_client *row)
{
    memset(row, 0, sizeof *row);
    memcpy(row->name, message->name, sizeof row->name);
    memcpy(row->platform, message->platform, sizeof row->platform);
    tern_sha256(token, TERN_WIRE_TOKEN_BYTES, row->token_hash);
    row->evaluator = message->evaluator;
    row->created_ms = now;
    row->last_seen_ms = now;
    TERN_TRY(tern_db_client_add(service->db, row));
    return remember_client(service, row);
}

static void answer_enrolled(struct tern_service *service, struct request *request, uint64_t id,
                            const uint8_t token[TERN_WIRE_TOKEN_BYTES])
{
    const struct tern_db_federation *federation = &service->federation;
    tern_EnrollReply reply = tern_EnrollReply_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    reply.client_id = id;
    tern_base64url_encode(token, TERN_WIRE_TOKEN_BYTES, reply.token);
    reply.has_model = true;
    memcpy(reply.model.spec, federation->model_spec, sizeof reply.model.spec);
    reply.model.seed = federation->seed;
    reply.model.hash.size = TERN_SHA256_SIZE;
    memcpy(reply.model.hash.bytes, federation->model_hash, TERN_SHA256_SIZE);
    reply.model.manifest = (uint32_t)federation->manifest_len;
    request->tag.client = id;
    enum tern_result result = tern_wire_encode_enroll_reply(&reply, body, sizeof body, &len);
    if (result == TERN_OK) {
        answer_bytes(request, body, len);
    } else {
        answer_error(request, status_of(result), result);
    }
}

enum tern_result handle_enroll(struct tern_service *service, struct request *request, uint64_t now)
{
    const tern_EnrollRequest *message = &request->u.enroll;
    if (request->parsed != TERN_OK) {
        answer_error(request, status_of(request->parsed), request->parsed);
        return TERN_OK;
    }
    if (service->client_count >= service->config.limits.clients) {
        answer_refusal(request, 503, TERN_ERR_BUSY, "The federation takes no further clients.");
        return TERN_OK;
    }
    uint8_t code_hash[TERN_SHA256_SIZE];
    tern_sha256(message->join_code, strlen(message->join_code), code_hash);
    enum tern_result used = tern_db_code_use(service->db, code_hash, now);
    if (used == TERN_ERR_NOT_FOUND) {
        atomic_fetch_add(&service->unauthorized, 1);
        answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    TERN_TRY(used);
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    struct tern_db_client row;
    TERN_TRY(tern_random_fill(token, sizeof token));
    TERN_TRY(add_client(service, message, token, now, &row));
    service->counters.enrolled++;
    answer_enrolled(service, request, row.id, token);
    tern_log(TERN_LOG_INFO, "enrolled", "client=%llu evaluator=%d", (unsigned long long)row.id,
             row.evaluator);
    return TERN_OK;
}
