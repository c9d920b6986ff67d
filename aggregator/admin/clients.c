// One client for the API: its row, its totals, and its rounds with their bytes.
#include "admin/internal.h"

#include "admin/rows.h"

#define HELD_OUT_VERSIONS 16 // versions searched for held-out figures

static void add_bytes(cJSON *object, const char *name, const struct tern_bytes *bytes)
{
    cJSON *part = cJSON_AddObjectToObject(object, name);
    tern_json_u64(part, "payload", bytes->payload);
    tern_json_u64(part, "http", bytes->http);
    tern_json_u64(part, "tls", bytes->tls);
    tern_json_u64(part, "wire", bytes->wire);
}

static enum tern_result reply_missing(struct tern_http_reply *reply)
{
    tern_admin_reply_error(reply, 404, TERN_ERR_NOT_FOUND, "There is no client of this id.");
    return TERN_OK;
}

// --- The client

static enum tern_result add_total(struct tern_db *db, uint64_t client, cJSON *row)
{
    struct tern_db_client_total total = {.client = client};
    TERN_TRY(tern_db_may_miss(tern_db_client_total_get(db, client, &total)));
    cJSON *object = cJSON_AddObjectToObject(row, "totals");
    tern_json_u64(object, "invited", total.invited);
    tern_json_u64(object, "reported", total.reported);
    add_bytes(object, "up", &total.up);
    add_bytes(object, "down", &total.down);
    return TERN_OK;
}

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
    struct tern_db_client client;
    cJSON *row = NULL;
    (void)service;
    (void)now_ms;
    enum tern_result result = tern_db_client_get(db, job->number, &client);
    if (result == TERN_ERR_NOT_FOUND) {
        return reply_missing(reply);
    }
    if (result == TERN_OK) {
        result = tern_json_client(db, &client, &row);
    }
    if (result == TERN_OK) {
        result = add_total(db, client.id, row);
    }
    if (result == TERN_OK) {
        result = add_held_out(db, client.id, row);
    }
    return tern_admin_reply_read(reply, row, result);
}

// --- Its rounds

static const char *state_name(enum tern_db_assignment_state state)
{
    static const char *const names[] = {[TERN_ASSIGNMENT_INVITED] = "selected",
                                        [TERN_ASSIGNMENT_TASKED] = "training",
                                        [TERN_ASSIGNMENT_REPORTED] = "accepted",
                                        [TERN_ASSIGNMENT_REPLACED] = "replaced"};
    return names[state];
}

static enum tern_result add_round(struct tern_db *db, uint32_t round, uint64_t client, cJSON *list)
{
    struct tern_db_assignment assignment;
    struct tern_db_meter meter;
    const enum tern_result found = tern_db_assignment_get(db, round, client, &assignment);
    if (found != TERN_OK) {
        return tern_db_may_miss(found);
    }
    TERN_TRY(tern_db_meter_of(db, client, round, &meter));
    cJSON *row = cJSON_CreateObject();
    tern_json_u64(row, "round", round);
    tern_json_text(row, "state", state_name(assignment.state));
    tern_json_u64(row, "local_steps", assignment.local_steps);
    tern_json_u64(row, "invited_ms", assignment.invited_ms);
    tern_json_u64(row, "tasked_ms", assignment.tasked_ms);
    tern_json_u64(row, "reported_ms", assignment.reported_ms);
    tern_json_text(row, "codec", assignment.codec);
    add_bytes(row, "up", &meter.up);
    add_bytes(row, "down", &meter.down);
    return cJSON_AddItemToArray(list, row) ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Searches by the keys of rounds: an index of assignments by client would cost a write in each round.
enum tern_result tern_admin_client_rounds(struct tern_service *service, struct tern_db *db,
                                          uint64_t now_ms, void *ctx, struct tern_http_reply *reply)
{
    const struct admin_job *job = ctx;
    struct tern_db_client client;
    enum tern_result result = tern_db_client_get(db, job->number, &client);
    (void)service;
    (void)now_ms;
    if (result == TERN_ERR_NOT_FOUND) {
        return reply_missing(reply);
    }
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 1; i <= job->limit && result == TERN_OK; i++) {
        result = add_round(db, job->after + i, client.id, list);
    }
    return tern_admin_reply_read(reply, list, result);
}
