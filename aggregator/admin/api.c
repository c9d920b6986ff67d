// The JSON side of the admin listener.
#include "admin/internal.h"

#include "admin/rows.h"
#include "util/bytes.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

// --- Replies

static bool put_text(struct tern_http_reply *reply, int status, cJSON *json)
{
    char *text = json == NULL ? NULL : cJSON_PrintUnformatted(json);
    size_t len = text == NULL ? 0 : strlen(text);
    struct tern_blob *blob = text == NULL ? NULL : tern_blob_new(len + 1);
    if (blob != NULL) {
        memcpy(blob->data, text, len);
        blob->data[len] = '\n';
        *reply =
            (struct tern_http_reply){.status = status, .type = "application/json", .body = blob};
    }
    cJSON_free(text);
    return blob != NULL;
}

static void reply_busy(struct tern_http_reply *reply)
{
    *reply = (struct tern_http_reply){.status = 503, .retry_after_s = 1};
}

// Takes the JSON over. Without memory the reply is 503: clients' updates wait in the same
// transaction, and must not fail because of a look at it.
static enum tern_result reply_json(struct tern_http_reply *reply, int status, cJSON *json)
{
    if (!put_text(reply, status, json)) {
        reply_busy(reply);
    }
    cJSON_Delete(json);
    return TERN_OK;
}

void tern_admin_reply_error(struct tern_http_reply *reply, int status, enum tern_result result,
                            const char *sentence)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "error", tern_result_name(result));
    cJSON_AddStringToObject(json, "sentence", sentence);
    (void)reply_json(reply, status, json);
}

// --- Status

// What only the running service knows.
static void add_running(cJSON *json, const struct tern_service_facts *facts, uint64_t now_ms)
{
    const struct tern_round_machine *machine = &facts->federation.machine;
    bool running = machine->open && machine->deadline_ms > now_ms;
    tern_json_bool(json, "finished", tern_round_finished(machine));
    tern_json_u64(json, "rounds_wanted", machine->policy.rounds);
    tern_json_u64(json, "members", machine->member_count);
    tern_json_bool(json, "merging", facts->federation.merging);
    tern_json_u64(json, "deadline_in_ms", running ? machine->deadline_ms - now_ms : 0);
    tern_json_float(json, "mean_loss", facts->federation.last_loss);
    tern_json_u64(json, "refused_draws", facts->federation.refused_draws);
    if (facts->federation.advice != NULL) {
        cJSON_AddStringToObject(json, "advice", facts->federation.advice);
    }
    tern_json_u64(json, "checkins_held", facts->held);
}

enum tern_result tern_admin_status(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    struct tern_status status;
    struct tern_service_facts facts;
    (void)ctx;
    if (tern_status_load(db, now_ms, &status) != TERN_OK) {
        reply_busy(reply);
        return TERN_OK;
    }
    tern_service_facts(service, &facts);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", facts.federation.model_spec);
    tern_json_status(json, &status);
    add_running(json, &facts, now_ms);
    return reply_json(reply, 200, json);
}

// --- Lists

// Ends a list that could not be read to its end. A failed read leaves the transaction as it is.
static enum tern_result reply_list(struct tern_http_reply *reply, cJSON *list,
                                   enum tern_result result)
{
    if (result == TERN_OK || result == TERN_ERR_NOT_FOUND) {
        return reply_json(reply, 200, list);
    }
    cJSON_Delete(list);
    reply_busy(reply);
    return TERN_OK;
}

// Takes the object over. TERN_ERR_NO_MEMORY
static enum tern_result add_row(cJSON *list, cJSON *row)
{
    return cJSON_AddItemToArray(list, row) ? TERN_OK : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_admin_clients(struct tern_service *service, struct tern_db *db,
                                    uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_db_client client;
    cJSON *list = cJSON_CreateArray();
    enum tern_result result = TERN_OK;
    (void)service;
    (void)now_ms;
    for (uint64_t i = 1; i <= job->limit && result == TERN_OK; i++) {
        cJSON *row = NULL;
        result = tern_db_client_get(db, job->after + i, &client);
        if (result == TERN_OK) {
            result = tern_json_client(db, &client, &row);
        }
        if (result == TERN_OK) {
            result = add_row(list, row);
        }
    }
    return reply_list(reply, list, result);
}

enum tern_result tern_admin_rounds(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_db_round round;
    cJSON *list = cJSON_CreateArray();
    enum tern_result result = TERN_OK;
    (void)service;
    (void)now_ms;
    for (uint32_t i = 1; i <= job->limit && result == TERN_OK; i++) {
        result = tern_db_round_get(db, job->after + i, &round);
        if (result == TERN_OK) {
            result = add_row(list, tern_json_round(&round));
        }
    }
    return reply_list(reply, list, result);
}

// --- Changes

enum tern_result tern_admin_enroll_code(struct tern_service *service, struct tern_db *db,
                                        uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    char text[TERN_JOIN_CODE_TEXT];
    struct tern_db_code code = {.uses_left = job->uses, .created_ms = now_ms};
    (void)service;
    if (tern_join_code_make(&code, text) != TERN_OK) {
        reply_busy(reply);
        return TERN_OK;
    }
    memcpy(code.label, job->label, sizeof code.label);
    memcpy(code.tags, job->tags, sizeof code.tags);
    code.expires_ms = now_ms + job->expires_ms;
    TERN_TRY(tern_db_code_add(db, &code));

    return reply_json(reply, 201, tern_json_code(&code, text));
}

enum tern_result tern_admin_revoke(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    (void)now_ms;
    struct tern_db_client client;
    enum tern_result result = tern_db_client_get(db, job->client, &client);
    if (result == TERN_OK) {
        result = tern_db_client_revoke(db, job->client);
    }
    if (result == TERN_ERR_NOT_FOUND) {
        tern_admin_reply_error(reply, 404, result, "There is no client of this id.");
        return TERN_OK;
    }
    TERN_TRY(result);
    TERN_TRY(tern_service_reload_clients(service));
    return reply_json(reply, 200, tern_json_revoked(&client));
}
