// Replicas and join codes.
#include "views/view.h"

#include "federation/federation.h"
#include <string.h>

// --- Replicas

struct replica_row {
    struct tern_db_replica replica;
    uint64_t clients;
};

const char *tern_view_replica_form(uint32_t form)
{
    static const char *const names[] = {[TERN_REPLICA_SEED] = "seed",
                                        [TERN_REPLICA_STEP] = "downloads",
                                        [TERN_REPLICA_SNAPSHOT] = "snapshot",
                                        [TERN_REPLICA_WHOLE] = "float32"};
    return names[form];
}

#define word_of_replica_form tern_view_replica_form
#define VALUE(...) TERN_VIEW_GETTER(replica_row, replicas, __VA_ARGS__)
#define STORED(...)
#include "views/replicas.def"

static const struct tern_view_column replica_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(replicas, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(replica_row, __VA_ARGS__)
#include "views/replicas.def"
};

static enum tern_result open_replicas(struct tern_view_rows *rows)
{
    tern_view_read(rows, tern_db_replicas(rows->db));
    return TERN_OK;
}

static bool next_replica(struct tern_view_rows *rows, void *at)
{
    struct replica_row *row = at;
    if (!tern_db_next(rows->lists[0], &row->replica)) {
        return false;
    }
    rows->result = tern_db_replica_holders(rows->db, row->replica.id, &row->clients);
    return rows->result == TERN_OK;
}

const struct tern_view tern_view_replicas = {
    .name = "replicas",
    .usual = "version,replica,of_version,kept_as,downloads,download_bytes,residual,clients",
    TERN_VIEW_COLUMNS(replica_columns),
    .row_size = sizeof(struct replica_row),
    .open = open_replicas,
    .next = next_replica,
};

// --- Join codes

struct code_row {
    struct tern_db_code code;
    char id[TERN_JOIN_CODE_ID];
    uint64_t enrolled;
    uint64_t now_ms;
};

const char *tern_code_state(const struct tern_db_code *code, uint64_t now_ms)
{
    if (code->uses_left == 0) {
        return "used up";
    }
    return code->expires_ms <= now_ms ? "expired" : "valid";
}

#define VALUE(...) TERN_VIEW_GETTER(code_row, codes, __VA_ARGS__)
#define STORED(...)
#include "views/codes.def"

static const struct tern_view_column code_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(codes, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(code_row, __VA_ARGS__)
#include "views/codes.def"
};

static enum tern_result open_codes(struct tern_view_rows *rows)
{
    tern_view_read(rows, tern_db_codes(rows->db));
    return TERN_OK;
}

static bool next_code(struct tern_view_rows *rows, void *at)
{
    struct code_row *row = at;
    if (!tern_db_next(rows->lists[0], &row->code)) {
        return false;
    }
    row->now_ms = rows->query.now_ms;
    tern_join_code_id(row->code.hash, row->id);
    rows->result = tern_db_clients_of_code(rows->db, row->id, &row->enrolled);
    return rows->result == TERN_OK;
}

const struct tern_view tern_view_codes = {
    .name = "codes",
    .usual = "id,state,uses,enrolled,expires_ms,evaluator,label",
    TERN_VIEW_COLUMNS(code_columns),
    .row_size = sizeof(struct code_row),
    .open = open_codes,
    .next = next_code,
};
