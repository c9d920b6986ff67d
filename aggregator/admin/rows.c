#include "admin/rows.h"

#include "federation/federation.h"
#include "views/view.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- Actions

cJSON *tern_json_code(const struct tern_db_code *code, const char *text)
{
    char id[TERN_JOIN_CODE_ID];
    cJSON *object = cJSON_CreateObject();
    tern_join_code_id(code->hash, id);
    tern_json_text(object, "code", text);
    tern_json_text(object, "id", id);
    tern_json_text(object, "label", code->label);
    tern_json_text(object, "tags", code->tags);
    tern_json_bool(object, "evaluator", code->evaluator);
    tern_json_u64(object, "uses", code->uses_left);
    tern_json_u64(object, "expires_ms", code->expires_ms);
    return object;
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
    TERN_TRY(tern_db_may_miss(tern_db_round_committed(db, &status->committed)));
    TERN_TRY(tern_db_may_miss(tern_db_order_get(db, &status->order)));
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

// Adds what the last committed round cost the aggregator.
static void add_cost(cJSON *object, const struct tern_db_round *committed)
{
    cJSON *cost = cJSON_AddObjectToObject(object, "last_round");
    tern_json_u64(cost, "round", committed->round);
    tern_json_u64(cost, "took_ms",
                  committed->closed_ms > committed->opened_ms
                      ? committed->closed_ms - committed->opened_ms
                      : 0);
    tern_json_float(cost, "service_share", (float)tern_db_round_service_share(committed));
    tern_json_float(cost, "search_ms", (float)tern_db_round_search_ms(committed));
}

const char *tern_order_text(const struct tern_db_order *order, char text[TERN_ORDER_TEXT])
{
    if (order->strategy_parameters[0] == '\0') {
        snprintf(text, TERN_ORDER_TEXT, "ordered: weights of version %" PRIu32, order->restored);
    } else {
        snprintf(text, TERN_ORDER_TEXT, "ordered: without %s", order->strategy_parameters);
    }
    return text;
}

void tern_json_order(cJSON *object, const struct tern_db_order *order)
{
    char text[TERN_ORDER_TEXT];
    tern_json_text(object, "verb", order->strategy);
    tern_json_text(object, "what", tern_order_text(order, text));
    tern_json_text(object, "why", order->reason);
    tern_json_u64(object, "restored", order->restored);
    tern_json_u64(object, "ordered_ms", order->ordered_ms);
    tern_json_bool(object, "ready", order->ready);
}

void tern_json_status(cJSON *object, const struct tern_status *status)
{
    const struct tern_db_counts *counts = &status->counts;
    if (status->version.version != UINT32_MAX) {
        tern_json_u64(object, "version", status->version.version);
        tern_json_hash(object, "model_sha256", status->version.model_sha256);
    }
    cJSON_AddStringToObject(object, "mode",
                            status->round.mode == TERN_ROUND_SECURE ? "secure" : "plain");
    if (status->committed.round != 0) {
        add_cost(object, &status->committed);
    }
    if (tern_status_is_open(status)) {
        const struct tern_db_round *round = &status->round;
        cJSON *open = cJSON_AddObjectToObject(object, "open_round");
        tern_json_u64(open, "round", round->round);
        tern_json_u64(open, "target", round->target);
        tern_json_u64(open, "quorum", round->quorum);
        tern_json_u64(open, "attempts", round->attempts);
        tern_json_u64(open, "opened_ms", round->opened_ms);
        tern_json_u64(open, "deadline_ms", round->deadline_ms);
        tern_json_u64(open, "reported", status->reported);
    }
    if (status->order.strategy[0] != '\0') {
        tern_json_order(cJSON_AddObjectToObject(object, "order"), &status->order);
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

// --- Changes

enum tern_result tern_code_find(struct tern_db *db, const char *id, struct tern_db_code *found)
{
    struct tern_db_code code;
    char its[TERN_JOIN_CODE_ID];
    bool is_there = false;
    struct tern_db_rows *rows = tern_db_codes(db);
    while (tern_db_next(rows, &code)) {
        tern_join_code_id(code.hash, its);
        if (strcmp(its, id) == 0) {
            *found = code;
            is_there = true;
        }
    }
    TERN_TRY(tern_db_end(rows));
    return is_there ? TERN_OK : TERN_ERR_NOT_FOUND;
}

enum tern_result tern_audit_code(struct tern_db *db, uint64_t now_ms, const char *action,
                                 const struct tern_db_code *code)
{
    char id[TERN_JOIN_CODE_ID];
    char after[2 * TERN_DB_CHANGED_MAX];
    tern_join_code_id(code->hash, id);
    snprintf(after, sizeof after, "uses=%u expires_s=%llu evaluator=%s tags=%s label=%s",
             (unsigned)code->uses_left,
             (unsigned long long)((code->expires_ms - code->created_ms) / 1000),
             code->evaluator ? "yes" : "no", code->tags, code->label);
    return tern_db_audit(db, now_ms, action, "", after, "join code %s", id);
}

enum tern_result tern_audit_cancelled(struct tern_db *db, uint64_t now_ms, const char *action,
                                      const struct tern_db_code *code)
{
    char id[TERN_JOIN_CODE_ID];
    tern_join_code_id(code->hash, id);
    return tern_db_audit(db, now_ms, action, tern_code_state(code, now_ms), "cancelled",
                         "join code %s", id);
}

enum tern_result tern_audit_revoked(struct tern_db *db, uint64_t now_ms, const char *action,
                                    const struct tern_db_client *client)
{
    return client->revoked ? TERN_OK
                           : tern_db_audit(db, now_ms, action, "admitted", "revoked", "client %llu",
                                           (unsigned long long)client->id);
}

// Sets the round's deadline to its opening, so that the deadline has passed even if the clock is set back meanwhile.
enum tern_result tern_round_end_time(struct tern_db *db, uint64_t now_ms, const char *action,
                                     struct tern_status *status)
{
    TERN_TRY(tern_status_load(db, now_ms, status));
    if (!tern_status_is_open(status)) {
        return TERN_ERR_NOT_FOUND;
    }
    struct tern_db_round row = status->round;
    row.deadline_ms = row.opened_ms < row.deadline_ms ? row.opened_ms : row.deadline_ms;
    row.quorum = 1;
    TERN_TRY(tern_db_round_put(db, &row));
    return tern_db_audit(db, now_ms, action, "open", "ended", "round %u", (unsigned)row.round);
}
