#include "admin/rows.h"

#include "hosted/float_text.h"
#include "rounds/error_policy.h"
#include "rounds/error_watch.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Values

static void add_raw(cJSON *object, const char *key, const char *text)
{
    if (key[0] != '\0') {
        cJSON_AddRawToObject(object, key, text);
    }
}

void tern_json_text(cJSON *object, const char *key, const char *text)
{
    if (key[0] != '\0') {
        cJSON_AddStringToObject(object, key, text);
    }
}

void tern_json_bool(cJSON *object, const char *key, bool value)
{
    add_raw(object, key, value ? "true" : "false");
}

void tern_json_u64(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    add_raw(object, key, text);
}

void tern_json_hash(cJSON *object, const char *key, const uint8_t hash[TERN_SHA256_SIZE])
{
    char text[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(hash, TERN_SHA256_SIZE, text);
    tern_json_text(object, key, text);
}

void tern_json_float(cJSON *object, const char *key, float value)
{
    char text[TERN_FLOAT_TEXT];
    add_raw(object, key, tern_float_text(value, text));
}

const char *tern_round_state_name(enum tern_db_round_state state)
{
    return state == TERN_ROUND_OPEN ? "open" : "committed";
}

const char *tern_replica_form_name(enum tern_db_replica_form form)
{
    static const char *const names[] = {[TERN_REPLICA_SEED] = "seed",
                                        [TERN_REPLICA_STEP] = "downloads",
                                        [TERN_REPLICA_SNAPSHOT] = "snapshot",
                                        [TERN_REPLICA_WHOLE] = "float32"};
    return names[form];
}

// --- Rows: each function adds what its list of columns shows

#define COLUMN_SHOWN(kind, name, of, rule, constraint, json) SHOW_##kind(name, of, "" json)
#define SHOW_U64(name, of, json) tern_json_u64(object, json, row->name);
#define SHOW_U32(name, of, json) tern_json_u64(object, json, row->name);
#define SHOW_ID(name, of, json) tern_json_u64(object, json, row->name);
#define SHOW_BOOL(name, of, json) tern_json_bool(object, json, row->name);
#define SHOW_REAL(name, of, json) tern_json_float(object, json, row->name);
#define SHOW_TEXT(name, of, json) tern_json_text(object, json, row->name);
#define SHOW_HASH(name, of, json) tern_json_hash(object, json, row->name);
#define SHOW_ENUM(name, of, json) tern_json_text(object, json, tern_##of##_name(row->name));
#define SHOW_NAMED(name, of, json) tern_json_text(object, json, of(row->name));

static cJSON *json_of_client(const struct tern_db_client *row)
{
    cJSON *object = cJSON_CreateObject();
#define COLUMN COLUMN_SHOWN
#include "store/tables/clients.def"
    return object;
}

cJSON *tern_json_round(const struct tern_db_round *row)
{
    cJSON *object = cJSON_CreateObject();
#define COLUMN COLUMN_SHOWN
#include "store/tables/rounds.def"
    static const char *const of_updates[] = {"mean_loss", "median_loss", "variance"};
    for (size_t i = 0; row->state == TERN_ROUND_OPEN && i < 3; i++) {
        cJSON_ReplaceItemInObjectCaseSensitive(object, of_updates[i], cJSON_CreateNull());
    }
    return object;
}

cJSON *tern_json_schedule(const struct tern_db_schedule *row)
{
    cJSON *object = cJSON_CreateObject();
#define COLUMN COLUMN_SHOWN
#include "store/tables/schedule.def"
    return object;
}

cJSON *tern_json_replica(const struct tern_db_replica *row)
{
    cJSON *object = cJSON_CreateObject();
#define COLUMN COLUMN_SHOWN
#include "store/tables/replicas.def"
    return object;
}

cJSON *tern_json_ledger(const struct tern_db_ledger *row)
{
    cJSON *object = cJSON_CreateObject();
#define COLUMN COLUMN_SHOWN
#include "store/tables/ledger.def"
    tern_json_text(object, "sentence", tern_error_finding_sentence(row->finding));
    if (row->round == 0) {
        cJSON_ReplaceItemInObjectCaseSensitive(object, "round", cJSON_CreateNull());
    }
    return object;
}

cJSON *tern_json_code(const struct tern_db_code *row, const char *text)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_text(object, "code", text);
#define COLUMN COLUMN_SHOWN
#include "store/tables/codes.def"
    return object;
}

static enum tern_result add_rows(struct tern_db *db, uint64_t client, cJSON *object)
{
    struct tern_db_schedule schedule;
    struct tern_db_ledger ledger;
    enum tern_result planned = tern_db_schedule_get(db, client, &schedule);
    enum tern_result kept = tern_db_ledger_get(db, client, &ledger);
    TERN_TRY(tern_db_may_miss(planned));
    TERN_TRY(tern_db_may_miss(kept));
    cJSON_AddItemToObject(object, "schedule",
                          planned == TERN_OK ? tern_json_schedule(&schedule) : cJSON_CreateNull());
    cJSON_AddItemToObject(object, "ledger",
                          kept == TERN_OK ? tern_json_ledger(&ledger) : cJSON_CreateNull());
    return TERN_OK;
}

enum tern_result tern_json_client(struct tern_db *db, const struct tern_db_client *client,
                                  cJSON **out)
{
    *out = json_of_client(client);
    enum tern_result result = *out == NULL ? TERN_ERR_NO_MEMORY : add_rows(db, client->id, *out);
    if (result != TERN_OK) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return result;
}

void tern_json_client_columns(cJSON *object, const struct tern_db_client *client,
                              const char *const names[])
{
    cJSON *row = json_of_client(client);
    for (; *names != NULL; names++) {
        cJSON_AddItemToObject(object, *names, cJSON_DetachItemFromObjectCaseSensitive(row, *names));
    }
    cJSON_Delete(row);
}

cJSON *tern_json_revoked(const struct tern_db_client *client)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_u64(object, "id", client->id);
    tern_json_bool(object, "revoked", true);
    tern_json_bool(object, "was_revoked", client->revoked);
    return object;
}

// --- Status

enum tern_result tern_status_load(struct tern_db *db, uint64_t now_ms, struct tern_status *status)
{
    memset(status, 0, sizeof *status);
    status->version.version = UINT32_MAX;
    TERN_TRY(tern_db_counts(db, now_ms, &status->counts));
    TERN_TRY(tern_db_may_miss(tern_db_version_last(db, &status->version)));
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &status->round)));
    struct tern_db_assignment assignment;
    struct tern_db_rows *rows = tern_db_assignments(db, status->round.round);
    while (tern_db_next(rows, &assignment)) {
        status->reported += assignment.state == TERN_ASSIGNMENT_REPORTED;
    }
    return tern_db_end(rows);
}

void tern_status_leave_out_follower(struct tern_status *status)
{
    struct tern_db_counts *counts = &status->counts;
    counts->clients -= counts->clients > 0;
    counts->evaluators -= counts->evaluators > 0;
}

bool tern_status_is_open(const struct tern_status *status)
{
    return status->round.round != 0 && status->round.state == TERN_ROUND_OPEN;
}

void tern_json_status(cJSON *object, const struct tern_status *status)
{
    const struct tern_db_counts *counts = &status->counts;
    if (status->version.version != UINT32_MAX) {
        tern_json_u64(object, "version", status->version.version);
        tern_json_hash(object, "model_sha256", status->version.model_sha256);
    }
    if (tern_status_is_open(status)) {
        cJSON *open = tern_json_round(&status->round);
        tern_json_u64(open, "reported", status->reported);
        cJSON_AddItemToObject(object, "open_round", open);
    }
#define TOTAL(name, text, json) tern_json_u64(object, "" json, counts->name);
#include "store/tables/counts.def"
    tern_json_u64(object, "database_bytes", counts->file_bytes);
}

// --- Totals

void tern_json_replica_totals(cJSON *object, const struct tern_db_replica_totals *totals)
{
#define TOTAL(name, text, json) tern_json_u64(object, "" json, totals->name);
#include "store/tables/replica_totals.def"
}
