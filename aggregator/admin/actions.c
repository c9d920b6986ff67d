// The admin API's changes: makes and cancels join codes, revokes clients, closes a round.
#include "admin/internal.h"
#include "admin/rows.h"

#include <string.h>

// --- Join codes

enum tern_result tern_admin_enroll_code(struct tern_service *service, struct tern_db *db,
                                        uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    char text[TERN_JOIN_CODE_TEXT];
    struct tern_db_code code = {.uses_left = job->uses, .created_ms = now_ms};
    if (tern_join_code_make(&code, text) != TERN_OK) {
        return tern_admin_reply_json(reply, 503, NULL);
    }
    memcpy(code.label, job->label, sizeof code.label);
    memcpy(code.tags, job->tags, sizeof code.tags);
    code.evaluator = job->evaluator;
    code.expires_ms = now_ms + job->expires_ms;
    TERN_TRY(tern_db_code_add(db, &code));
    TERN_TRY(tern_audit_code(db, now_ms, job->action, &code));
    TERN_TRY(tern_service_reload_codes(service));

    return tern_admin_reply_json(reply, 201, tern_json_code(&code, text));
}

enum tern_result tern_admin_cancel_code(struct tern_service *service, struct tern_db *db,
                                        uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_db_code code;
    (void)service;
    enum tern_result result = tern_code_find(db, job->code, &code);
    if (result == TERN_OK) {
        result = tern_db_code_cancel(db, code.hash);
    }
    if (result == TERN_ERR_NOT_FOUND) {
        tern_admin_reply_error(reply, 404, result, "No join code has this id.");
        return TERN_OK;
    }
    TERN_TRY(result);
    TERN_TRY(tern_audit_cancelled(db, now_ms, job->action, &code));
    cJSON *json = cJSON_CreateObject();
    tern_json_text(json, "id", job->code);
    tern_json_bool(json, "was_valid", strcmp(tern_code_state(&code, now_ms), "valid") == 0);
    return tern_admin_reply_json(reply, 200, json);
}

// --- Clients

enum tern_result tern_admin_revoke(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_db_client client;
    const uint64_t upstream = tern_federation_upstream_client(tern_service_federation(service));
    if (upstream != 0 && job->number == upstream) {
        tern_admin_reply_error(reply, 409, TERN_ERR_STATE,
                               "This client stands for the upstream aggregator. To end this "
                               "gateway, revoke it there.");
        return TERN_OK;
    }
    enum tern_result result = tern_db_client_get(db, job->number, &client);
    if (result == TERN_OK) {
        result = tern_db_client_revoke(db, job->number);
    }
    if (result == TERN_ERR_NOT_FOUND) {
        tern_admin_reply_error(reply, 404, result, "No client has this id.");
        return TERN_OK;
    }
    TERN_TRY(result);
    TERN_TRY(tern_audit_revoked(db, now_ms, job->action, &client));
    TERN_TRY(tern_service_reload_clients(service));
    return tern_admin_reply_json(reply, 200, tern_json_revoked(&client));
}

// --- Rounds

// Closes the round in the path, if this round is still open: when the request arrives, the next round may be open.
enum tern_result tern_admin_close_round(struct tern_service *service, struct tern_db *db,
                                        uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_status status;
    TERN_TRY(tern_status_load(db, now_ms, &status));
    if (job->number == 0 || job->number > status.round.round) {
        tern_admin_reply_error(reply, 404, TERN_ERR_NOT_FOUND, "No round has this number.");
        return TERN_OK;
    }
    if (!tern_status_is_open(&status) || status.round.round != job->number) {
        tern_admin_reply_error(reply, 409, TERN_ERR_STATE, "This round is not open.");
        return TERN_OK;
    }
    TERN_TRY(tern_round_end_time(db, now_ms, job->action, &status));
    TERN_TRY(tern_service_reload_round(service));
    cJSON *json = cJSON_CreateObject();
    tern_json_u64(json, "round", status.round.round);
    tern_json_u64(json, "reported", status.reported);
    return tern_admin_reply_json(reply, 200, json);
}
