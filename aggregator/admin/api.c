// The JSON side of the admin listener.
#include "admin/internal.h"

#include "hosted/random.h"
#include "util/bytes.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

// Join codes look as those of `tern-aggregator enroll-code` do: 80 random bits in groups of four.
#define CODE_BYTES 10
#define CODE_CHARACTERS 16
#define CODE_TEXT (CODE_CHARACTERS + CODE_CHARACTERS / 4) // with hyphens and the NUL

// --- Replies

static enum tern_result reply_json(struct tern_http_reply *reply, int status, cJSON *json)
{
    char *text = json == NULL ? NULL : cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (text == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    size_t len = strlen(text);
    reply->status = status;
    reply->type = "application/json";
    reply->body = tern_blob_new(len + 1);
    if (reply->body != NULL) {
        memcpy(reply->body->data, text, len);
        reply->body->data[len] = '\n';
    }
    free(text);
    return reply->body != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

void reply_error(struct tern_http_reply *reply, int status, enum tern_result result,
                 const char *sentence)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "error", tern_result_name(result));
    cJSON_AddStringToObject(json, "sentence", sentence);
    if (reply_json(reply, status, json) != TERN_OK) {
        *reply = (struct tern_http_reply){.status = 503, .retry_after_s = 1};
    }
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

enum tern_result job_status(struct tern_service *service, struct tern_db *db, uint64_t now_ms,
                            void *ctx, struct tern_http_reply *reply)
{
    struct tern_service_facts facts;
    cJSON *json = cJSON_CreateObject();
    (void)db;
    (void)ctx;
    tern_service_facts(service, &facts);
    cJSON_AddStringToObject(json, "model", facts.model_spec);
    add_number(json, "version", facts.version);
    add_hash(json, "model_sha256", facts.model_sha256);
    add_number(json, "round", facts.round);
    cJSON_AddBoolToObject(json, "round_open", facts.round_open);
    cJSON_AddBoolToObject(json, "finished", facts.finished);
    add_number(json, "rounds_wanted", facts.rounds_wanted);
    add_number(json, "target", facts.target);
    add_number(json, "reported", facts.reported);
    add_number(json, "members", facts.members);
    bool running = facts.round_open && facts.deadline_ms > now_ms;
    add_number(json, "deadline_in_ms", running ? facts.deadline_ms - now_ms : 0);
    cJSON_AddNumberToObject(json, "mean_loss", (double)facts.last_loss);
    add_number(json, "clients", facts.clients);
    add_number(json, "clients_revoked", facts.revoked);
    add_number(json, "evaluators", facts.evaluators);
    add_number(json, "checkins_held", facts.held);
    return reply_json(reply, 200, json);
}

// --- Lists

static bool add_client(void *ctx, const struct tern_db_client *client)
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
    return cJSON_AddItemToArray(ctx, json) != 0;
}

enum tern_result job_clients(struct tern_service *service, struct tern_db *db, uint64_t now_ms,
                             void *ctx, struct tern_http_reply *reply)
{
    cJSON *list = cJSON_CreateArray();
    (void)service;
    (void)now_ms;
    (void)ctx;
    enum tern_result result = tern_db_client_each(db, add_client, list);
    if (result != TERN_OK) {
        cJSON_Delete(list);
        return result;
    }
    return reply_json(reply, 200, list);
}

static const char *state_name(enum tern_db_round_state state)
{
    switch (state) {
    case TERN_ROUND_OPEN:
        return "open";
    case TERN_ROUND_COMMITTED:
        return "committed";
    case TERN_ROUND_ABANDONED:
        break;
    }
    return "abandoned";
}

static bool add_round(void *ctx, const struct tern_db_round *round)
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
    cJSON_AddStringToObject(json, "codec_up", round->codec_up);
    cJSON_AddStringToObject(json, "codec_down", round->codec_down);
    add_number(json, "opened_ms", round->opened_ms);
    add_number(json, "closed_ms", round->closed_ms);
    return cJSON_AddItemToArray(ctx, json) != 0;
}

enum tern_result job_rounds(struct tern_service *service, struct tern_db *db, uint64_t now_ms,
                            void *ctx, struct tern_http_reply *reply)
{
    cJSON *list = cJSON_CreateArray();
    (void)service;
    (void)now_ms;
    (void)ctx;
    enum tern_result result = tern_db_round_each(db, add_round, list);
    if (result != TERN_OK) {
        cJSON_Delete(list);
        return result;
    }
    return reply_json(reply, 200, list);
}

// --- Changes

// Five bits a character, in letters and digits that are not mistaken for each other.
static void code_text(const uint8_t bytes[CODE_BYTES], char text[CODE_TEXT])
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    char *at = text;
    for (unsigned i = 0; i < CODE_CHARACTERS; i++) {
        unsigned bit = i * 5;
        unsigned next = bit / 8 + 1 < CODE_BYTES ? bytes[bit / 8 + 1] : 0;
        unsigned pair = (unsigned)bytes[bit / 8] << 8 | next;
        if (i > 0 && i % 4 == 0) {
            *at++ = '-';
        }
        *at++ = alphabet[pair >> (11 - bit % 8) & 31];
    }
    *at = '\0';
}

enum tern_result job_enroll_code(struct tern_service *service, struct tern_db *db, uint64_t now_ms,
                                 void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    uint8_t secret[CODE_BYTES];
    char text[CODE_TEXT];
    struct tern_db_code code = {.uses_left = job->uses, .created_ms = now_ms};
    (void)service;
    TERN_TRY(tern_random_fill(secret, sizeof secret));
    code_text(secret, text);
    tern_sha256(text, strlen(text), code.hash);
    memcpy(code.label, job->label, sizeof code.label);
    code.expires_ms = now_ms + job->expires_ms;
    TERN_TRY(tern_db_code_add(db, &code));

    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "code", text);
    add_number(json, "uses", job->uses);
    add_number(json, "expires_ms", code.expires_ms);
    return reply_json(reply, 201, json);
}

enum tern_result job_revoke(struct tern_service *service, struct tern_db *db, uint64_t now_ms,
                            void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    (void)now_ms;
    enum tern_result result = tern_db_client_revoke(db, job->client);
    if (result == TERN_ERR_NOT_FOUND) {
        reply_error(reply, 404, result, "There is no client of this id.");
        return TERN_OK;
    }
    TERN_TRY(result);
    TERN_TRY(tern_service_reload_clients(service));
    cJSON *json = cJSON_CreateObject();
    add_number(json, "id", job->client);
    cJSON_AddBoolToObject(json, "revoked", true);
    return reply_json(reply, 200, json);
}
