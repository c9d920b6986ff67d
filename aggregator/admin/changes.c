#include "admin/changes.h"

#include <string.h>

// --- Codes

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
