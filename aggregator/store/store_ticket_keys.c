// Keys of TLS session tickets, which the store cannot read.
#include "store/sql_table.h"
#include "store/ticket_keys.h"

#include <string.h>

#define TICKET_KEYS &tern_table_ticket_keys

enum tern_result tern_db_ticket_keys_get(struct tern_db *db, const uint8_t sealer[TERN_SHA256_SIZE],
                                         uint8_t *sealed, size_t size, size_t *len)
{
    struct tern_db_ticket_keys row;
    struct tern_query query = tern_table_select(db, TICKET_KEYS, "WHERE sealer = ?");
    tern_query_bind_blob(&query, sealer, TERN_SHA256_SIZE);
    if (!tern_table_next(&query, TICKET_KEYS, &row)) {
        return tern_query_missing(&query);
    }
    *len = row.sealed.len < size ? row.sealed.len : size;
    if (*len > 0) {
        memcpy(sealed, row.sealed.data, *len);
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_ticket_keys_put(struct tern_db *db, const uint8_t sealer[TERN_SHA256_SIZE],
                                         const uint8_t *sealed, size_t len, uint64_t now_ms)
{
    struct tern_db_ticket_keys row = {.changed_ms = now_ms, .sealed = {sealed, len}};
    memcpy(row.sealer, sealer, sizeof row.sealer);
    return tern_table_put(db, TICKET_KEYS, &row);
}

enum tern_result tern_db_ticket_keys_drop(struct tern_db *db, uint64_t before_ms)
{
    struct tern_query query =
        tern_query_write(db->sql, "DELETE FROM ticket_keys WHERE changed_ms < ?");
    tern_query_bind(&query, before_ms);
    return tern_query_run(&query);
}
