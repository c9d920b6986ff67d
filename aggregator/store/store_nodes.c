// Leader election between the aggregators of one database, and the settings that they compare.
#include "store/nodes.h"
#include "store/tables.h"
#include <stdlib.h>
#include <string.h>

#define SETTINGS &tern_table_node_settings

static enum tern_result need_nodes(struct tern_db *db, const struct tern_sql_nodes **nodes)
{
    *nodes = db->sql->driver->nodes;
    return *nodes != NULL
               ? TERN_OK
               : tern_sql_fail(
                     db->sql, TERN_ERR_STATE,
                     "a database file has one aggregator; several need PostgreSQL (store.url)");
}

enum tern_result tern_db_nodes(struct tern_db *db, struct tern_db_node *nodes, size_t most,
                               size_t *count)
{
    *count = 0;
    if (db->sql->driver->nodes == NULL) {
        return TERN_OK;
    }
    struct tern_query query = tern_db_read(db, db->sql->driver->nodes->list, NULL);
    while (*count < most && tern_query_row(&query)) {
        struct tern_db_node *node = &nodes[(*count)++];
        tern_query_text(&query, node->name, sizeof node->name);
        tern_query_text(&query, node->address, sizeof node->address);
        node->leads = tern_query_number(&query, 1) == 1;
        node->since_ms = tern_query_u64(&query);
        node->number = (uint32_t)tern_query_number(&query, UINT32_MAX);
        node->silent_ms = tern_query_u64(&query);
        node->idle_ms = tern_query_u64(&query);
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_join_node(struct tern_db *db, uint32_t node)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return nodes->join(db->sql, node);
}

static enum tern_result sweep_settings(struct tern_db *db)
{
    const struct tern_sql_nodes *nodes;
    TERN_TRY(need_nodes(db, &nodes));
    return tern_query_run(tern_db_write(db, nodes->sweep_settings, NULL));
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
    struct tern_query query = tern_db_read(db, nodes->end_leader, TERN_BIND(node, silent_ms));
    if (tern_query_row(&query)) {
        *ended = tern_query_u64(&query) > 0;
    }
    return tern_query_end(&query);
}
