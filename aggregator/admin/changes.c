#include "admin/changes.h"

#include <string.h>

// --- Codes

const char *tern_code_state(const struct tern_db_code *code, uint64_t now_ms)
{
    if (code->uses_left == 0) {
        return "used up";
    }
    return code->expires_ms <= now_ms ? "expired" : "valid";
}

cJSON *tern_json_listed_code(const struct tern_db_code *code, uint64_t enrolled, uint64_t now_ms)
{
    char id[TERN_JOIN_CODE_ID];
    cJSON *object = tern_json_code(code, "");
    cJSON_DeleteItemFromObjectCaseSensitive(object, "code"); // only its making knows it
    tern_join_code_id(code->hash, id);
    tern_json_text(object, "id", id);
    tern_json_text(object, "state", tern_code_state(code, now_ms));
    tern_json_u64(object, "enrolled", enrolled);
    return object;
}

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

// --- Rounds

// A deadline before it opened is over wherever the clock is set until the service sees it.
enum tern_result tern_round_end_time(struct tern_db *db, uint64_t now_ms,
                                     struct tern_status *status)
{
    TERN_TRY(tern_status_load(db, now_ms, status));
    if (!tern_status_is_open(status)) {
        return TERN_ERR_NOT_FOUND;
    }
    struct tern_db_round row = status->round;
    row.deadline_ms = row.opened_ms < row.deadline_ms ? row.opened_ms : row.deadline_ms;
    row.quorum = 1;
    return tern_db_round_put(db, &row);
}
