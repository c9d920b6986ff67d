// Partial sums of the open round, in pieces.
#include "store/parts.h"
#include "store/sql_table.h"

#include <string.h>

#define PARTS (&tern_table_parts)

static enum tern_result is_open(struct tern_db *db, uint32_t round)
{
    struct tern_db_round row;
    const enum tern_result found = tern_db_round_get(db, round, &row);
    if (found == TERN_ERR_NOT_FOUND || (found == TERN_OK && row.state != TERN_ROUND_OPEN)) {
        return TERN_ERR_CONFLICT;
    }
    return found;
}

enum tern_result tern_db_part_put(struct tern_db *db, const struct tern_db_part *piece)
{
    if (piece->body.len > TERN_DB_PIECE_BYTES) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(is_open(db, piece->round));
    return tern_table_put(db, PARTS, piece);
}

enum tern_result tern_db_part_drop(struct tern_db *db, uint32_t round, const char *node)
{
    struct tern_query query =
        tern_query_write(db->sql, "DELETE FROM parts WHERE round = ? AND node = ?");
    tern_query_bind(&query, round);
    tern_query_bind_text(&query, node, TERN_DB_NODE_MAX);
    return tern_query_run(&query);
}

enum tern_result tern_db_parts_drop(struct tern_db *db, uint32_t round)
{
    struct tern_query query = tern_query_write(db->sql, "DELETE FROM parts WHERE round <= ?");
    tern_query_bind(&query, round);
    return tern_query_run(&query);
}

static void read_part(struct tern_query *query, uint32_t round, struct tern_db_part *part)
{
    memset(part, 0, sizeof *part);
    part->round = round;
    tern_query_text(query, part->node, sizeof part->node);
    part->pieces = (uint32_t)tern_query_number(query, UINT32_MAX);
    part->updates = (uint32_t)tern_query_number(query, UINT32_MAX);
}

enum tern_result tern_db_parts(struct tern_db *db, uint32_t round, struct tern_db_part *parts,
                               size_t most, size_t *count)
{
    struct tern_query query =
        tern_query_read(db->sql, "SELECT node, pieces, updates FROM parts WHERE round = ?"
                                 " AND piece = 0 ORDER BY node LIMIT ?");
    tern_query_bind(&query, round);
    tern_query_bind(&query, most);
    *count = 0;
    while (*count < most && tern_query_row(&query)) {
        read_part(&query, round, &parts[(*count)++]);
    }
    return tern_query_end(&query);
}

enum tern_result
tern_db_part_show(struct tern_db *db, uint32_t round, const char *node, uint32_t piece,
                  enum tern_result (*show)(void *ctx, const struct tern_db_part *piece), void *ctx)
{
    struct tern_db_part row;
    struct tern_query query =
        tern_table_select(db, PARTS, "WHERE round = ? AND node = ? AND piece = ?");
    tern_query_bind(&query, round);
    tern_query_bind_text(&query, node, TERN_DB_NODE_MAX);
    tern_query_bind(&query, piece);
    if (!tern_table_next(&query, PARTS, &row)) {
        return tern_query_missing(&query);
    }
    const enum tern_result shown = show(ctx, &row);
    const enum tern_result result = tern_query_end(&query);
    return result == TERN_OK ? shown : result;
}
