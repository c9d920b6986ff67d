// The JSON side of the admin listener.
#include "admin/internal.h"

#include "admin/above.h"
#include "admin/held_out.h"
#include "admin/rows.h"
#include "admin/waiting.h"
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
        *reply = (struct tern_http_reply){.status = status,
                                          .type = "application/json",
                                          .headers = "Cache-Control: no-store\r\n"
                                                     "X-Content-Type-Options: nosniff\r\n",
                                          .body = blob};
    }
    cJSON_free(text);
    return blob != NULL;
}

static cJSON *json_of_error(enum tern_result result, const char *message)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "error", tern_result_name(result));
    cJSON_AddStringToObject(json, "message", message);
    return json;
}

// Without a body where there is no memory for that either.
static void reply_busy(struct tern_http_reply *reply)
{
    cJSON *json = json_of_error(TERN_ERR_BUSY, "The service cannot answer this now; ask again.");
    if (!put_text(reply, 503, json)) {
        *reply = (struct tern_http_reply){.status = 503};
    }
    cJSON_Delete(json);
    reply->retry_after_s = 1;
}

enum tern_result tern_admin_reply_json(struct tern_http_reply *reply, int status, cJSON *json)
{
    if (!put_text(reply, status, json)) {
        reply_busy(reply);
    }
    cJSON_Delete(json);
    return TERN_OK;
}

enum tern_result tern_admin_reply_read(struct tern_http_reply *reply, cJSON *json,
                                       enum tern_result result)
{
    if (result == TERN_OK || result == TERN_ERR_NOT_FOUND) {
        return tern_admin_reply_json(reply, 200, json);
    }
    cJSON_Delete(json);
    reply_busy(reply);
    return TERN_OK;
}

void tern_admin_reply_error(struct tern_http_reply *reply, int status, enum tern_result result,
                            const char *message)
{
    (void)tern_admin_reply_json(reply, status, json_of_error(result, message));
    reply->retry_after_s = reply->status == 503 ? 1 : 0;
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
    if (facts.above.is_known) {
        tern_status_leave_out_follower(&status);
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", facts.federation.model_spec);
    tern_json_u64(json, "values", facts.federation.values);
    tern_json_u64(json, "float32_payload", 4 * (uint64_t)facts.federation.values);
    tern_json_u64(json, "now_ms", now_ms);
    tern_json_status(json, &status);
    add_running(json, &facts, now_ms);
    return tern_admin_reply_json(reply, 200, json);
}

// --- Waiting

static cJSON *json_of_member(const struct tern_waiting_member *member)
{
    static const char *const columns[] = {"id",       "name",        "last_seen_ms", "metered",
                                          "budgeted", "budget_left", "budget_spent", NULL};
    cJSON *object = cJSON_CreateObject();
    tern_json_client_columns(object, &member->client, columns);
    tern_json_bool(object, "has_task", member->has_task);
    tern_json_u64(object, "tries", member->tries);
    return object;
}

static cJSON *json_of_waiting(const struct tern_waiting *waiting)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "now", waiting->sentence);
    cJSON_AddStringToObject(object, "advice", waiting->advice);
    cJSON_AddStringToObject(object, "reason", tern_wait_name(waiting->wait));
    tern_json_bool(object, "needs_help", waiting->needs_help);
    tern_json_u64(object, "waits_for", waiting->missing);
    cJSON *members = cJSON_AddArrayToObject(object, "members");
    for (uint32_t i = 0; i < waiting->shown; i++) {
        cJSON_AddItemToArray(members, json_of_member(&waiting->members[i]));
    }
    return object;
}

static void add_missing(void *ctx, const struct tern_db_client *client, bool has_task,
                        uint32_t tries)
{
    tern_waiting_add(ctx, client, has_task, tries);
}

// By memory: a dashboard asks every few seconds, and updates wait while this runs.
static enum tern_result load_waiting(struct tern_service *service, struct tern_db *db,
                                     uint64_t now_ms, struct tern_waiting *waiting)
{
    const struct tern_federation *federation = tern_service_federation(service);
    struct tern_wait_rules rules;
    struct tern_wait_facts facts;
    struct tern_db_counts counts = {.code_uses_left = 0};
    tern_federation_waits(federation, now_ms, &rules, &facts);
    tern_federation_missing(federation, add_missing, waiting);
    const enum tern_wait wait = tern_wait_of(&rules, &facts, now_ms);
    if (wait == TERN_WAIT_STATISTICS) {
        tern_federation_missing_statistics(federation, now_ms, add_missing, waiting);
    }
    if (wait == TERN_WAIT_CLIENTS) {
        TERN_TRY(tern_db_counts(db, now_ms, &counts));
    }
    const struct tern_waiting_known known = {.rules = &rules,
                                             .facts = &facts,
                                             .code_uses_left = counts.code_uses_left,
                                             .now_ms = now_ms};
    struct tern_service_facts running;
    tern_service_facts(service, &running);
    tern_waiting_say(waiting, &known);
    tern_above_put_before(&running.above, now_ms, waiting);
    return TERN_OK;
}

enum tern_result tern_admin_waiting(struct tern_service *service, struct tern_db *db,
                                    uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    struct tern_waiting *waiting = calloc(1, sizeof *waiting);
    (void)ctx;
    const enum tern_result result =
        waiting != NULL ? load_waiting(service, db, now_ms, waiting) : TERN_ERR_NO_MEMORY;
    cJSON *json = result == TERN_OK ? json_of_waiting(waiting) : NULL;
    free(waiting);
    return tern_admin_reply_read(reply, json, result);
}

// --- Lists

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
    return tern_admin_reply_read(reply, list, result);
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
    return tern_admin_reply_read(reply, list, result);
}

// The held-out figures of as many rounds: those of the versions that they began with.
static enum tern_result add_held_outs(struct tern_db *db, const struct admin_job *job, cJSON *list)
{
    struct tern_held_outs all;
    struct tern_db_round round;
    TERN_TRY(tern_held_outs_load(db, job->after, job->after + job->limit - 1, &all));
    struct tern_db_rows *rows = tern_db_rounds_after(db, job->after, job->limit);
    while (tern_db_next(rows, &round)) {
        cJSON *row = tern_held_outs_object(&all, round.base_version);
        tern_json_u64(row, "round", round.round);
        tern_db_check_row(rows, add_row(list, row));
    }
    tern_held_outs_free(&all);
    return tern_db_end(rows);
}

enum tern_result tern_admin_held_out(struct tern_service *service, struct tern_db *db,
                                     uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    cJSON *list = cJSON_CreateArray();
    (void)service;
    (void)now_ms;
    return tern_admin_reply_read(reply, list, add_held_outs(db, ctx, list));
}
