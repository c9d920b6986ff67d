// Requests, answers and settings that the aggregators of one database exchange.
#include "store/nodes.h"
#include "store/tables.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

#define RELAYED &tern_table_relayed
#define ANSWERS &tern_table_answers
#define SETTINGS &tern_table_node_settings

// --- Leader election and notices

static enum tern_result need_nodes(struct tern_db *db, const struct tern_sql_nodes **nodes)
{
    *nodes = db->sql->driver->nodes;
    return *nodes != NULL
               ? TERN_OK
               : tern_sql_fail(db->sql, TERN_ERR_STATE, "a database in a file has only one node");
}

enum tern_result tern_db_nodes(struct tern_db *db, struct tern_db_node *nodes, size_t most,
                               size_t *count)
{
    *count = 0;
    if (db->sql->driver->nodes == NULL) {
        return TERN_OK;
    }
    struct tern_query query = tern_query_read(db->sql, db->sql->driver->nodes->list, NULL);
    while (*count < most && tern_query_row(&query)) {
        struct tern_db_node *node = &nodes[(*count)++];
        tern_query_text(&query, node->name, sizeof node->name);
        tern_query_text(&query, node->address, sizeof node->address);
        node->leads = tern_query_number(&query, 1) == 1;
        node->follows = tern_query_number(&query, 1) == 1;
        node->since_ms = tern_query_u64(&query);
        node->number = (uint32_t)tern_query_number(&query, UINT32_MAX);
        node->silent_ms = tern_query_u64(&query);
        node->idle_ms = tern_query_u64(&query);
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_set_follower(struct tern_db *db, bool follows)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return nodes->set_follower(db->sql, follows);
}

enum tern_result tern_db_join_node(struct tern_db *db, uint32_t node)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return nodes->join(db->sql, node);
}

enum tern_result tern_db_subscribe(struct tern_db *db, uint32_t node)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return nodes->subscribe(db->sql, node);
}

static enum tern_result sweep_settings(struct tern_db *db)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return tern_query_run(tern_query_write(db->sql, nodes->sweep_settings, NULL));
}

enum tern_result tern_db_node_settings_put(struct tern_db *db, uint32_t node, const char *text)
{
    const struct tern_db_node_settings row = {.node = node, .text = {text, strlen(text)}};
    TERN_TRY(sweep_settings(db));
    return tern_table_put(db, SETTINGS, &row);
}

enum tern_result tern_db_node_settings_get(struct tern_db *db, uint32_t node, char **text)
{
    struct tern_db_node_settings row;
    struct tern_query query = tern_table_select(db, SETTINGS, "WHERE node = ?", TERN_BIND(node));
    *text = NULL;
    if (!tern_table_next(&query, SETTINGS, &row)) {
        return tern_query_missing(&query);
    }
    *text = strndup(row.text.data != NULL ? row.text.data : "", row.text.len);
    const enum tern_result result = tern_query_end(&query);
    return *text != NULL ? result : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_db_end_leader(struct tern_db *db, uint32_t node, uint64_t silent_ms,
                                    bool *ended)
{
    const struct tern_sql_nodes *nodes;
    *ended = false;
    TERN_TRY(need_nodes(db, &nodes));
    struct tern_query query =
        tern_query_read(db->sql, nodes->end_leader, TERN_BIND(node, silent_ms));
    if (tern_query_row(&query)) {
        *ended = tern_query_u64(&query) > 0;
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_notify(struct tern_db *db, const char *message)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return tern_query_run(tern_query_write(db->sql, nodes->notify, TERN_BIND(message)));
}

enum tern_result tern_db_wait_notices(struct tern_db *db, int wake, uint32_t ms,
                                      void (*hear)(void *ctx, const char *message), void *ctx)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return nodes->wait_notices(db->sql, wake, ms, hear, ctx);
}

// --- Requests

enum tern_result tern_db_begin_apart(struct tern_db *db, bool durable)
{
    const struct tern_sql_nodes *nodes;
    tern_totals_forget(db);
    db->knows_dropped = false;
    TERN_TRY(need_nodes(db, &nodes));
    return tern_sql_begin(db->sql, durable ? TERN_SQL_APART : TERN_SQL_APART_UNSYNCED);
}

enum tern_result tern_db_relay(struct tern_db *db, struct tern_db_relayed *row)
{
    return tern_table_insert(db, RELAYED, row);
}

enum tern_result tern_db_relaying(struct tern_db *db, uint64_t after, uint64_t *node)
{
    return tern_query_get(
        tern_query_read(db->sql, "SELECT coalesce(min(node), 0) FROM relayed WHERE node > ?",
                        TERN_BIND(after)),
        node);
}

struct tern_db_rows *tern_db_relayed(struct tern_db *db, uint64_t node, uint64_t after,
                                     uint32_t most)
{
    return tern_table_list(db, RELAYED, "WHERE node = ? AND number > ? ORDER BY number LIMIT ?",
                           TERN_BIND(node, after, most));
}

enum tern_result tern_db_relayed_drop(struct tern_db *db, uint64_t node, uint64_t number,
                                      bool *dropped)
{
    struct tern_query query = tern_query_write(
        db->sql,
        "DELETE FROM relayed WHERE (node, number) IN (SELECT node, number FROM relayed"
        " WHERE node = ? AND number = ? FOR UPDATE SKIP LOCKED)",
        TERN_BIND(node, number));
    const enum tern_result result = tern_query_run_one(query);
    *dropped = result == TERN_OK;
    return tern_db_may_miss(result);
}

// --- Answers

enum tern_result tern_db_answer_put(struct tern_db *db, struct tern_db_answer *row)
{
    return tern_table_insert(db, ANSWERS, row);
}

// The columns of RETURNING * are in the order of the table.
struct tern_db_rows *tern_db_answers_take(struct tern_db *db, uint64_t node)
{
    struct tern_query query =
        tern_query_read(db->sql, "DELETE FROM answers WHERE node = ? RETURNING *", TERN_BIND(node));
    return tern_table_rows(query, ANSWERS);
}

enum tern_result tern_db_answers_sweep(struct tern_db *db)
{
    if (db->sql->driver->nodes == NULL) {
        return TERN_OK;
    }
    return tern_query_run(tern_query_write(db->sql, db->sql->driver->nodes->sweep_answers, NULL));
}

// --- Metered bytes

static uint8_t *pack_bytes(uint8_t *at, const struct tern_bytes *bytes)
{
    const uint64_t numbers[] = {bytes->payload, bytes->http, bytes->tls, bytes->wire};
    for (size_t i = 0; i < 4; i++) {
        tern_put_le64(at, numbers[i]);
        at += 8;
    }
    return at;
}

static struct tern_bytes unpack_bytes(const uint8_t *at)
{
    return (struct tern_bytes){.payload = tern_get_le64(at),
                               .http = tern_get_le64(at + 8),
                               .tls = tern_get_le64(at + 16),
                               .wire = tern_get_le64(at + 24)};
}

void tern_db_meter_pack(const struct tern_db_meter *row, uint8_t bytes[TERN_DB_METER_PACKED])
{
    tern_put_le64(bytes, row->client);
    tern_put_le64(bytes + 8, (uint64_t)row->round << 8 | (uint64_t)row->purpose);
    tern_put_le64(bytes + 16, row->exchanges);
    (void)pack_bytes(pack_bytes(bytes + 24, &row->up), &row->down);
}

enum tern_result tern_db_meter_unpack(const uint8_t bytes[TERN_DB_METER_PACKED],
                                      struct tern_db_meter *row)
{
    const uint64_t round_and_purpose = tern_get_le64(bytes + 8);
    const uint64_t purpose = round_and_purpose & 0xff;
    if (purpose >= TERN_PURPOSE_COUNT || round_and_purpose >> 8 > UINT32_MAX) {
        return TERN_ERR_CORRUPT;
    }
    *row = (struct tern_db_meter){.client = tern_get_le64(bytes),
                                  .round = (uint32_t)(round_and_purpose >> 8),
                                  .purpose = (enum tern_purpose)purpose,
                                  .exchanges = tern_get_le64(bytes + 16),
                                  .up = unpack_bytes(bytes + 24),
                                  .down = unpack_bytes(bytes + 56)};
    return TERN_OK;
}
