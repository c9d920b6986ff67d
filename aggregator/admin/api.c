// The JSON side of the admin listener.
#include "admin/internal.h"

#include "admin/join_code.h"
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

static void add_number(cJSON *json, const char *name, uint64_t value)
{
    cJSON_AddNumberToObject(json, name, (double)value);
}

static void add_hash(cJSON *json, const char *name, const uint8_t hash[TERN_SHA256_SIZE])
{
    char text[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(hash, TERN_SHA256_SIZE, text);
    cJSON_AddStringToObject(json, name, text);
}

// --- Status

enum tern_result tern_admin_status(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    struct tern_service_facts facts;
    cJSON *json = cJSON_CreateObject();
    (void)db;
    (void)ctx;
    tern_service_facts(service, &facts);
    cJSON_AddStringToObject(json, "model", facts.federation.model_spec);
    add_number(json, "version", facts.federation.version);
    add_hash(json, "model_sha256", facts.federation.model_sha256);
    add_number(json, "round", facts.federation.machine.round);
    cJSON_AddBoolToObject(json, "round_open", facts.federation.machine.open);
    cJSON_AddBoolToObject(json, "finished", tern_round_finished(&facts.federation.machine));
    add_number(json, "rounds_wanted", facts.federation.machine.policy.rounds);
    add_number(json, "target", facts.federation.machine.target);
    add_number(json, "reported", facts.federation.machine.reported);
    add_number(json, "members", facts.federation.machine.member_count);
    bool running = facts.federation.machine.open && facts.federation.machine.deadline_ms > now_ms;
    add_number(json, "deadline_in_ms", running ? facts.federation.machine.deadline_ms - now_ms : 0);
    cJSON_AddNumberToObject(json, "mean_loss", (double)facts.federation.last_loss);
    add_number(json, "refused_draws", facts.federation.refused_draws);
    if (facts.federation.advice != NULL) {
        cJSON_AddStringToObject(json, "advice", facts.federation.advice);
    }
    add_number(json, "clients", facts.federation.clients);
    add_number(json, "clients_revoked", facts.federation.revoked);
    add_number(json, "evaluators", facts.federation.evaluators);
    add_number(json, "checkins_held", facts.held);
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

static void add_ledger(cJSON *json, const struct tern_db_ledger *ledger)
{
    cJSON_AddStringToObject(json, "directive", tern_error_directive_name(ledger->directive));
    cJSON_AddStringToObject(json, "directive_reason", ledger->reason);
    cJSON_AddStringToObject(json, "finding", tern_error_finding_name(ledger->finding));
    add_number(json, "finding_ms", ledger->finding_ms);
    cJSON_AddStringToObject(json, "finding_sentence", tern_error_finding_sentence(ledger->finding));
}

static cJSON *client_json(const struct tern_db_client *client, const struct tern_db_ledger *ledger)
{
    cJSON *json = cJSON_CreateObject();
    add_number(json, "id", client->id);
    cJSON_AddStringToObject(json, "name", client->name);
    cJSON_AddStringToObject(json, "platform", client->platform);
    cJSON_AddBoolToObject(json, "evaluator", client->evaluator);
    cJSON_AddBoolToObject(json, "revoked", client->revoked);
    add_number(json, "created_ms", client->created_ms);
    add_number(json, "last_seen_ms", client->last_seen_ms);
    cJSON_AddNumberToObject(json, "steps_per_second", (double)client->steps_per_second);
    add_number(json, "version", client->version);
    add_ledger(json, ledger);
    return json;
}

static enum tern_result add_client(cJSON *list, struct tern_db *db,
                                   const struct tern_db_client *client)
{
    struct tern_db_ledger ledger = {.finding = TERN_FINDING_NONE};
    enum tern_result found = tern_db_ledger_get(db, client->id, &ledger);
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    return cJSON_AddItemToArray(list, client_json(client, &ledger)) ? TERN_OK : TERN_ERR_NO_MEMORY;
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
        result = tern_db_client_get(db, job->after + i, &client);
        if (result == TERN_OK) {
            result = add_client(list, db, &client);
        }
    }
    return reply_list(reply, list, result);
}

static const char *state_name(enum tern_db_round_state state)
{
    return state == TERN_ROUND_OPEN ? "open" : "committed";
}

static cJSON *round_json(const struct tern_db_round *round)
{
    cJSON *json = cJSON_CreateObject();
    add_number(json, "round", round->round);
    cJSON_AddStringToObject(json, "state", state_name(round->state));
    add_number(json, "base_version", round->base_version);
    add_number(json, "target", round->target);
    add_number(json, "quorum", round->quorum);
    add_number(json, "applied", round->applied);
    add_number(json, "attempts", round->attempts);
    cJSON_AddNumberToObject(json, "mean_loss", (double)round->mean_loss);
    cJSON_AddNumberToObject(json, "learning_rate", (double)round->learning_rate);
    cJSON_AddStringToObject(json, "strategy", round->strategy);
    cJSON_AddStringToObject(json, "strategy_parameters", round->strategy_parameters);
    cJSON_AddStringToObject(json, "codec_up", round->codec_up);
    cJSON_AddStringToObject(json, "codec_down", round->codec_down);
    add_number(json, "opened_ms", round->opened_ms);
    add_number(json, "closed_ms", round->closed_ms);
    return json;
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
        if (result == TERN_OK && !cJSON_AddItemToArray(list, round_json(&round))) {
            result = TERN_ERR_NO_MEMORY;
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
    code.expires_ms = now_ms + job->expires_ms;
    TERN_TRY(tern_db_code_add(db, &code));

    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "code", text);
    add_number(json, "uses", job->uses);
    add_number(json, "expires_ms", code.expires_ms);
    return reply_json(reply, 201, json);
}

enum tern_result tern_admin_revoke(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    (void)now_ms;
    enum tern_result result = tern_db_client_revoke(db, job->client);
    if (result == TERN_ERR_NOT_FOUND) {
        tern_admin_reply_error(reply, 404, result, "There is no client of this id.");
        return TERN_OK;
    }
    TERN_TRY(result);
    TERN_TRY(tern_service_reload_clients(service));
    cJSON *json = cJSON_CreateObject();
    add_number(json, "id", job->client);
    cJSON_AddBoolToObject(json, "revoked", true);
    return reply_json(reply, 200, json);
}
