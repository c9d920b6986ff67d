// Clients, their keys, join codes, and what is known of each: error ledger, schedule, evaluations.
#include "store/table.h"

#include <string.h>

#define CLIENTS &tern_table_clients

enum tern_result tern_db_client_add(struct tern_db *db, struct tern_db_client *client)
{
    client->has_psk = false;
    return tern_table_insert(db, CLIENTS, client);
}

enum tern_result tern_db_client_get(struct tern_db *db, uint64_t id, struct tern_db_client *client)
{
    return tern_table_get(db, CLIENTS, "WHERE id = ?", id, client);
}

enum tern_result tern_db_client_update(struct tern_db *db, const struct tern_db_client *client)
{
    return tern_table_update(db, CLIENTS, client);
}

static enum tern_result run_on(struct tern_db *db, const char *text, uint64_t client)
{
    struct tern_query query = tern_query_write(db->sql, text);
    tern_query_bind(&query, client);
    return tern_query_run_one(&query);
}

enum tern_result tern_db_client_revoke(struct tern_db *db, uint64_t id)
{
    TERN_TRY(run_on(db, "UPDATE clients SET revoked = 1, has_psk = 0 WHERE id = ?", id));
    enum tern_result result = run_on(db, "DELETE FROM psk_keys WHERE client = ?", id);
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

enum tern_result tern_db_client_each(struct tern_db *db,
                                     bool (*visit)(void *ctx, const struct tern_db_client *client),
                                     void *ctx)
{
    struct tern_db_client row;
    struct tern_query query = tern_table_select(db, CLIENTS, "ORDER BY id");
    while (tern_table_next(&query, CLIENTS, &row) && visit(ctx, &row)) {
    }
    return tern_query_end(&query);
}

// --- Pre-shared keys

enum tern_result tern_db_psk_put(struct tern_db *db, uint64_t client,
                                 const uint8_t key[TERN_SHA256_SIZE])
{
    struct tern_psk_row row = {.client = client};
    memcpy(row.key, key, sizeof row.key);
    TERN_TRY(tern_table_insert(db, &tern_table_psk_keys, &row));
    return run_on(db, "UPDATE clients SET has_psk = 1 WHERE id = ?", client);
}

enum tern_result tern_db_psk_each(struct tern_db *db,
                                  bool (*visit)(void *ctx, uint64_t client,
                                                const uint8_t key[TERN_SHA256_SIZE]),
                                  void *ctx)
{
    struct tern_psk_row row;
    struct tern_query query = tern_table_select(db, &tern_table_psk_keys, "ORDER BY client");
    while (tern_table_next(&query, &tern_table_psk_keys, &row) && visit(ctx, row.client, row.key)) {
    }
    return tern_query_end(&query);
}

// --- Codes

enum tern_result tern_db_code_add(struct tern_db *db, const struct tern_db_code *code)
{
    struct tern_db_code row = *code;
    return tern_table_insert(db, &tern_table_codes, &row);
}

enum tern_result tern_db_code_use(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE],
                                  uint64_t now_ms)
{
    struct tern_query query =
        tern_query_write(db->sql, "UPDATE codes SET uses_left = uses_left - 1"
                                  " WHERE hash = ? AND uses_left > 0 AND expires_ms > ?");
    tern_query_bind_blob(&query, hash, TERN_SHA256_SIZE);
    tern_query_bind(&query, now_ms);
    return tern_query_run_one(&query);
}

// --- Error ledger

enum tern_result tern_db_ledger_put(struct tern_db *db, const struct tern_db_ledger *ledger)
{
    return tern_table_put(db, &tern_table_ledger, ledger, "");
}

enum tern_result tern_db_ledger_get(struct tern_db *db, uint64_t client, struct tern_db_ledger *out)
{
    return tern_table_get(db, &tern_table_ledger, "WHERE client = ?", client, out);
}

enum tern_result tern_db_ledger_each(struct tern_db *db,
                                     bool (*visit)(void *ctx, const struct tern_db_ledger *ledger),
                                     void *ctx)
{
    struct tern_db_ledger row;
    struct tern_query query = tern_table_select(db, &tern_table_ledger, "ORDER BY client");
    while (tern_table_next(&query, &tern_table_ledger, &row) && visit(ctx, &row)) {
    }
    return tern_query_end(&query);
}

// --- Schedule

enum tern_result tern_db_schedule_put(struct tern_db *db, const struct tern_db_schedule *schedule)
{
    return tern_table_put(db, &tern_table_schedule, schedule, "");
}

enum tern_result tern_db_schedule_get(struct tern_db *db, uint64_t client,
                                      struct tern_db_schedule *out)
{
    return tern_table_get(db, &tern_table_schedule, "WHERE client = ?", client, out);
}

enum tern_result
tern_db_schedule_each(struct tern_db *db,
                      bool (*visit)(void *ctx, const struct tern_db_schedule *schedule), void *ctx)
{
    struct tern_db_schedule row;
    struct tern_query query = tern_table_select(db, &tern_table_schedule, "ORDER BY client");
    while (tern_table_next(&query, &tern_table_schedule, &row) && visit(ctx, &row)) {
    }
    return tern_query_end(&query);
}

// --- Evaluations

enum tern_result tern_db_evaluation_put(struct tern_db *db,
                                        const struct tern_db_evaluation *evaluation)
{
    return tern_table_put(db, &tern_table_evaluations, evaluation, "");
}

enum tern_result tern_db_evaluation_each(struct tern_db *db,
                                         bool (*visit)(void *ctx,
                                                       const struct tern_db_evaluation *evaluation),
                                         void *ctx)
{
    struct tern_db_evaluation row;
    struct tern_query query =
        tern_table_select(db, &tern_table_evaluations, "ORDER BY version, client");
    while (tern_table_next(&query, &tern_table_evaluations, &row) && visit(ctx, &row)) {
    }
    return tern_query_end(&query);
}
