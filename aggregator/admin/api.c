// The admin API's replies in JSON: status, what the federation waits for, lists, and one client.
#include "admin/internal.h"

#include "admin/rows.h"
#include "admin/waiting.h"
#include "views/privacy.h"
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

// Replies with status 503; without a body if memory is short.
static void reply_busy(struct tern_http_reply *reply)
{
    cJSON *json = json_of_error(TERN_ERR_BUSY, "The service cannot answer now; try again later.");
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

// --- Requests

// Whether JSON has the escape of U+0000, at which a C string would end.
static bool has_nul(const char *text, size_t len)
{
    static const char nul[] = "\\u0000";
    const size_t size = sizeof nul - 1;
    for (size_t i = 0; i + size <= len; i += text[i] == '\\' ? 2 : 1) {
        if (memcmp(text + i, nul, size) == 0) {
            return true;
        }
    }
    return false;
}

cJSON *tern_admin_read_object(const struct tern_http_request *request)
{
    const char *text = (const char *)request->body;
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(text, request->body_len, &end, 0);
    while (end != NULL && end < text + request->body_len && strchr(" \t\r\n", *end) != NULL &&
           *end != '\0') {
        end++;
    }
    if (!cJSON_IsObject(json) || end != text + request->body_len ||
        has_nul(text, request->body_len)) {
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

// --- Status

// Adds the values that only the running service has.
static void add_running(cJSON *json, const struct tern_service_facts *facts, uint64_t now_ms)
{
    const struct tern_round_machine *machine = &facts->federation.machine;
    bool running = machine->open && machine->deadline_ms > now_ms;
    tern_json_bool(json, "finished", tern_round_finished(machine));
    tern_json_u64(json, "rounds_wanted", machine->policy.rounds);
    tern_json_u64(json, "members", machine->member_count);
    tern_json_bool(json, "merging", facts->federation.merging);
    tern_json_u64(json, "deadline_in_ms", running ? machine->deadline_ms - now_ms : 0);
    if (facts->federation.last_loss != 0.0F) { // rounds with noise have none
        tern_json_float(json, "mean_loss", facts->federation.last_loss);
    } else {
        cJSON_AddNullToObject(json, "mean_loss");
    }
    tern_json_u64(json, "refused_cohorts", facts->federation.refused_cohorts);
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
    struct tern_privacy_report privacy;
    (void)ctx;
    if (tern_status_load(db, now_ms, &status) != TERN_OK) {
        reply_busy(reply);
        return TERN_OK;
    }
    tern_service_facts(service, &facts);
    if (facts.upstream.is_known) {
        tern_status_leave_out_follower(&status);
    }
    const struct tern_privacy_settings *settings = &facts.federation.privacy;
    if (settings->noise > 0.0 &&
        tern_privacy_load(db, settings, facts.federation.machine.policy.rounds, &privacy) !=
            TERN_OK) {
        reply_busy(reply);
        return TERN_OK;
    }
    cJSON *json = cJSON_CreateObject();
    if (settings->noise > 0.0) {
        cJSON_AddItemToObject(json, "privacy", tern_privacy_json(&privacy));
    }
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
    const struct tern_db_client *client = &member->client;
    cJSON *object = cJSON_CreateObject();
    tern_json_u64(object, "id", client->id);
    tern_json_text(object, "name", client->name);
    tern_json_u64(object, "last_seen_ms", client->last_seen_ms);
    tern_json_bool(object, "metered", client->metered);
    if (client->budgeted) {
        const bool some = client->budget_left > client->budget_spent;
        tern_json_u64(object, "budget_left", some ? client->budget_left - client->budget_spent : 0);
    } else {
        cJSON_AddNullToObject(object, "budget_left");
    }
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

// Reads the service's memory instead of the store, because a dashboard asks every few seconds, and updates wait
// meanwhile.
static enum tern_result load_waiting(struct tern_service *service, struct tern_db *db,
                                     uint64_t now_ms, struct tern_waiting *waiting)
{
    const struct tern_federation *federation = tern_service_federation(service);
    struct tern_wait_rules rules;
    struct tern_wait_facts facts;
    struct tern_db_counts counts = {.code_uses_left = 0};
    tern_federation_wait_facts(federation, now_ms, &rules, &facts);
    tern_federation_each_missing_update(federation, add_missing, waiting);
    const enum tern_wait wait = tern_wait_reason(&rules, &facts, now_ms);
    if (wait == TERN_WAIT_STATISTICS) {
        tern_federation_each_missing_statistics(federation, now_ms, add_missing, waiting);
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
    tern_waiting_describe(waiting, &known);
    tern_waiting_add_upstream(&running.upstream, now_ms, waiting);
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

enum tern_result tern_admin_list(struct tern_service *service, struct tern_db *db, uint64_t now_ms,
                                 void *ctx, struct tern_http_reply *reply)
{
    struct admin_job *job = ctx;
    struct tern_view_rows *rows;
    char why[TERN_VIEW_WHY_MAX];
    (void)service;
    job->query.now_ms = now_ms;
    const enum tern_result result = tern_view_open(job->view, db, &job->query, &rows, why);
    if (result == TERN_ERR_ARGUMENT) {
        tern_admin_reply_error(reply, 422, result, why);
        return TERN_OK;
    }
    if (result != TERN_OK) {
        return tern_admin_reply_read(reply, NULL, result);
    }
    cJSON *list = job->arrays ? tern_view_arrays(rows) : tern_view_array(rows);
    return tern_admin_reply_read(reply, list, tern_view_close(rows));
}

// --- One client

static enum tern_result reply_missing(struct tern_http_reply *reply)
{
    tern_admin_reply_error(reply, 404, TERN_ERR_NOT_FOUND, "No client has this id.");
    return TERN_OK;
}

// Reads the client's row in a view. *object: NULL = the client has no row.
static enum tern_result row_of(const struct tern_view *view, struct tern_db *db,
                               const struct admin_job *job, cJSON **object)
{
    struct tern_view_rows *rows;
    char why[TERN_VIEW_WHY_MAX];
    const struct tern_view_query query = {.client = job->number};
    *object = NULL;
    TERN_TRY(tern_view_open(view, db, &query, &rows, why));
    if (tern_view_next(rows)) {
        *object = tern_view_object(rows);
    }
    return tern_view_close(rows);
}

static enum tern_result add_row_of(const struct tern_view *view, struct tern_db *db,
                                   const struct admin_job *job, cJSON *object)
{
    cJSON *row = NULL;
    TERN_TRY(row_of(view, db, job, &row));
    cJSON_AddItemToObject(object, view->name, row != NULL ? row : cJSON_CreateNull());
    return TERN_OK;
}

#define HELD_OUT_VERSIONS 16 // versions searched for held-out figures

// Adds the client's newest figures on its own held-out data, from the last HELD_OUT_VERSIONS versions.
static enum tern_result add_held_out(struct tern_db *db, uint64_t client, cJSON *row)
{
    struct tern_db_version newest = {.version = 0};
    struct tern_db_metric metric;
    cJSON *found = NULL;
    cJSON *metrics = NULL;
    uint32_t version = 0;
    TERN_TRY(tern_db_may_miss(tern_db_version_last(db, &newest)));
    const uint32_t first =
        newest.version > HELD_OUT_VERSIONS ? newest.version - HELD_OUT_VERSIONS : 0;
    struct tern_db_rows *rows = tern_db_metrics_from(db, first);
    while (tern_db_next(rows, &metric)) {
        if (metric.client != client) {
            continue;
        }
        if (found == NULL || metric.version != version) {
            cJSON_Delete(found);
            found = cJSON_CreateObject();
            version = metric.version;
            tern_json_u64(found, "version", version);
            tern_json_u64(found, "num_examples", metric.num_examples);
            metrics = cJSON_AddObjectToObject(found, "metrics");
        }
        tern_json_float(metrics, metric.name, (float)metric.value);
    }
    cJSON_AddItemToObject(row, "held_out", found != NULL ? found : cJSON_CreateNull());
    return tern_db_end(rows);
}

enum tern_result tern_admin_client(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    cJSON *row = NULL;
    (void)service;
    (void)now_ms;
    enum tern_result result =
        job->number != 0 ? row_of(&tern_view_clients, db, job, &row) : TERN_OK;
    if (result == TERN_OK && row == NULL) {
        return reply_missing(reply);
    }
    if (result == TERN_OK) {
        result = add_row_of(&tern_view_schedule, db, job, row);
    }
    if (result == TERN_OK) {
        result = add_row_of(&tern_view_ledger, db, job, row);
    }
    if (result == TERN_OK) {
        result = add_held_out(db, job->number, row);
    }
    return tern_admin_reply_read(reply, row, result);
}

enum tern_result tern_admin_client_rounds(struct tern_service *service, struct tern_db *db,
                                          uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    struct admin_job *job = ctx;
    struct tern_db_client client;
    if (tern_db_client_get(db, job->number, &client) == TERN_ERR_NOT_FOUND) {
        return reply_missing(reply);
    }
    job->query.client = job->number;
    return tern_admin_list(service, db, now_ms, ctx, reply);
}
