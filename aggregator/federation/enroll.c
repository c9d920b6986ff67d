#include "federation/internal.h"

#include "hosted/random.h"
#include "util/bytes.h"
#include <stdio.h>
#include <string.h>

static enum tern_result add_client(struct tern_federation *federation,
                                   const tern_EnrollRequest *message,
                                   const uint8_t token[TERN_WIRE_TOKEN_BYTES], uint64_t now,
                                   struct tern_db_client *row)
{
    memcpy(row->name, message->name, sizeof row->name);
    memcpy(row->platform, message->platform, sizeof row->platform);
    tern_sha256(token, TERN_WIRE_TOKEN_BYTES, row->token_hash);
    row->evaluator = message->evaluator;
    row->created_ms = now;
    row->last_seen_ms = now;
    TERN_TRY(tern_db_client_add(federation->db, row));
    tern_round_joined(&federation->machine, now);
    return tern_clients_remember(federation, row);
}

static void fill_reply(const struct tern_federation *federation, uint64_t id,
                       const uint8_t token[TERN_WIRE_TOKEN_BYTES], tern_EnrollReply *reply)
{
    const struct tern_db_federation *about = &federation->about;
    *reply = (tern_EnrollReply)tern_EnrollReply_init_zero;
    reply->client_id = id;
    tern_base64url_encode(token, TERN_WIRE_TOKEN_BYTES, reply->token);
    reply->has_model = true;
    memcpy(reply->model.spec, about->model_spec, sizeof reply->model.spec);
    reply->model.seed = about->seed;
    reply->model.hash.size = TERN_SHA256_SIZE;
    memcpy(reply->model.hash.bytes, about->model_hash, TERN_SHA256_SIZE);
    reply->model.manifest = (uint32_t)about->manifest_len;
}

// An evaluator's figures are the federation's accuracy, so the operator appoints it. A client without a valid code gets
// the same answer for either role.
static enum tern_result check_evaluator(struct tern_federation *federation,
                                        const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now,
                                        struct tern_refusal *refusal)
{
    struct tern_db_code code;
    const enum tern_result found = tern_db_code_get(federation->db, code_hash, &code);
    if (found == TERN_OK && code.uses_left > 0 && code.expires_ms > now && !code.evaluator) {
        tern_refuse(
            refusal, TERN_ERR_UNAUTHORIZED,
            "This join code makes no evaluators: make one with `tern-aggregator enroll-code "
            "--evaluator`, or set client.evaluator = no.");
    }
    return tern_db_may_miss(found);
}

enum tern_result tern_federation_enroll(struct tern_federation *federation,
                                        const tern_EnrollRequest *message, const char *peer,
                                        uint64_t now, tern_EnrollReply *reply,
                                        struct tern_refusal *refusal)
{
    if (federation->clients.count >= federation->config.limits.clients) {
        tern_refuse(refusal, TERN_ERR_BUSY, "The federation takes no further clients.");
        return TERN_OK;
    }
    uint8_t code_hash[TERN_SHA256_SIZE];
    tern_join_code_hash(message->join_code, code_hash);
    if (message->evaluator) {
        TERN_TRY(check_evaluator(federation, code_hash, now, refusal));
    }
    if (refusal->result != TERN_OK) {
        return TERN_OK;
    }
    enum tern_result used = tern_db_code_use(federation->db, code_hash, now);
    if (used == TERN_ERR_NOT_FOUND) {
        tern_refuse(refusal, TERN_ERR_UNAUTHORIZED, NULL);
        return TERN_OK;
    }
    TERN_TRY(used);
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    struct tern_db_client row = {0};
    struct tern_db_code code;
    tern_join_code_id(code_hash, row.code);
    TERN_TRY(tern_db_code_get(federation->db, code_hash, &code));
    memcpy(row.tags, code.tags, sizeof row.tags);
    snprintf(row.address, sizeof row.address, "%s", peer);
    TERN_TRY(tern_random_fill(token, sizeof token));
    TERN_TRY(add_client(federation, message, token, now, &row));
    fill_reply(federation, row.id, token, reply);
    tern_log(TERN_LOG_INFO, "enrolled", "client=%llu evaluator=%d code=%s peer=%s",
             (unsigned long long)row.id, row.evaluator, row.code, row.address);
    return TERN_OK;
}
