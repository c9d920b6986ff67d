// Clients, join codes, error ledger, schedule and evaluations.
#include "store/store_sqlite.h"

#include <string.h>

#define CLIENT_COLUMNS                                                                             \
    "id, name, platform, token_hash, evaluator, revoked, created_ms, last_seen_ms,"                \
    " steps_per_second, replica, version, codecs, coders, downloads_max, from_seed, step_ahead,"   \
    " metered, budgeted, budget_left, budget_spent, budget_renewed, power,"                        \
    " EXISTS (SELECT 1 FROM psk_keys WHERE client = clients.id)"

static void read_client(struct tern_query *query, struct tern_db_client *client)
{
    client->id = tern_query_u64(query);
    tern_query_text(query, client->name, sizeof client->name);
    tern_query_text(query, client->platform, sizeof client->platform);
    tern_query_hash(query, client->token_hash);
    client->evaluator = tern_query_bool(query);
    client->revoked = tern_query_bool(query);
    client->created_ms = tern_query_u64(query);
    client->last_seen_ms = tern_query_u64(query);
    client->steps_per_second = tern_query_real(query);
    tern_query_hash(query, client->replica);
    client->version = tern_query_u32(query);
    client->codecs = tern_query_u32(query);
    client->coders = tern_query_u32(query);
    client->downloads_max = tern_query_u32(query);
    client->from_seed = tern_query_bool(query);
    client->step_ahead = tern_query_bool(query);
    client->metered = tern_query_bool(query);
    client->budgeted = tern_query_bool(query);
    client->budget_left = tern_query_u64(query);
    client->budget_spent = tern_query_u64(query);
    client->budget_renewed = tern_query_bool(query);
    client->power = tern_query_u32(query);
    client->has_psk = tern_query_bool(query);
}

enum tern_result tern_db_client_add(struct tern_db *db, struct tern_db_client *client)
{
    struct tern_query query = tern_query_write(
        db, "INSERT INTO clients (name, platform, token_hash, evaluator, revoked, created_ms,"
            " last_seen_ms, steps_per_second, replica, version, codecs, coders, downloads_max,"
            " from_seed, step_ahead, metered, budgeted, budget_left, budget_spent, budget_renewed,"
            " power) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    tern_query_bind_text(&query, client->name, sizeof client->name);
    tern_query_bind_text(&query, client->platform, sizeof client->platform);
    tern_query_bind_blob(&query, client->token_hash, TERN_SHA256_SIZE);
    tern_query_bind(&query, client->evaluator);
    tern_query_bind(&query, client->revoked);
    tern_query_bind(&query, client->created_ms);
    tern_query_bind(&query, client->last_seen_ms);
    tern_query_bind_real(&query, (double)client->steps_per_second);
    tern_query_bind_blob(&query, client->replica, TERN_SHA256_SIZE);
    tern_query_bind(&query, client->version);
    tern_query_bind(&query, client->codecs);
    tern_query_bind(&query, client->coders);
    tern_query_bind(&query, client->downloads_max);
    tern_query_bind(&query, client->from_seed);
    tern_query_bind(&query, client->step_ahead);
    tern_query_bind(&query, client->metered);
    tern_query_bind(&query, client->budgeted);
    tern_query_bind(&query, client->budget_left);
    tern_query_bind(&query, client->budget_spent);
    tern_query_bind(&query, client->budget_renewed);
    tern_query_bind(&query, client->power);
    TERN_TRY(tern_query_run(&query));
    client->id = (uint64_t)sqlite3_last_insert_rowid(db->handle);
    return TERN_OK;
}

static enum tern_result read_one_client(struct tern_query *query, struct tern_db_client *client)
{
    if (!tern_query_row(query)) {
        return tern_query_missing(query);
    }
    read_client(query, client);
    return tern_query_end(query);
}

enum tern_result tern_db_client_get(struct tern_db *db, uint64_t id, struct tern_db_client *client)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " CLIENT_COLUMNS " FROM clients WHERE id = ?");
    tern_query_bind(&query, id);
    return read_one_client(&query, client);
}

enum tern_result tern_db_client_find(struct tern_db *db, const uint8_t token_hash[TERN_SHA256_SIZE],
                                     struct tern_db_client *client)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " CLIENT_COLUMNS " FROM clients WHERE token_hash = ?");
    tern_query_bind_blob(&query, token_hash, TERN_SHA256_SIZE);
    return read_one_client(&query, client);
}

enum tern_result tern_db_client_update(struct tern_db *db, const struct tern_db_client *client)
{
    struct tern_query query = tern_query_write(
        db,
        "UPDATE clients SET name = ?, platform = ?, evaluator = ?, revoked = max(revoked, ?),"
        " last_seen_ms = ?, steps_per_second = ?, replica = ?, version = ?, codecs = ?,"
        " coders = ?, downloads_max = ?, from_seed = ?, step_ahead = ?, metered = ?, budgeted = ?,"
        " budget_left = ?, budget_spent = ?, budget_renewed = ?, power = ?"
        " WHERE id = ?");
    tern_query_bind_text(&query, client->name, sizeof client->name);
    tern_query_bind_text(&query, client->platform, sizeof client->platform);
    tern_query_bind(&query, client->evaluator);
    tern_query_bind(&query, client->revoked);
    tern_query_bind(&query, client->last_seen_ms);
    tern_query_bind_real(&query, (double)client->steps_per_second);
    tern_query_bind_blob(&query, client->replica, TERN_SHA256_SIZE);
    tern_query_bind(&query, client->version);
    tern_query_bind(&query, client->codecs);
    tern_query_bind(&query, client->coders);
    tern_query_bind(&query, client->downloads_max);
    tern_query_bind(&query, client->from_seed);
    tern_query_bind(&query, client->step_ahead);
    tern_query_bind(&query, client->metered);
    tern_query_bind(&query, client->budgeted);
    tern_query_bind(&query, client->budget_left);
    tern_query_bind(&query, client->budget_spent);
    tern_query_bind(&query, client->budget_renewed);
    tern_query_bind(&query, client->power);
    tern_query_bind(&query, client->id);
    return tern_query_run_one(&query);
}

enum tern_result tern_db_client_revoke(struct tern_db *db, uint64_t id)
{
    struct tern_query query = tern_query_write(db, "UPDATE clients SET revoked = 1 WHERE id = ?");
    tern_query_bind(&query, id);
    TERN_TRY(tern_query_run_one(&query));
    struct tern_query forget = tern_query_write(db, "DELETE FROM psk_keys WHERE client = ?");
    tern_query_bind(&forget, id);
    return tern_query_run(&forget);
}

enum tern_result tern_db_client_each(struct tern_db *db,
                                     bool (*visit)(void *ctx, const struct tern_db_client *client),
                                     void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " CLIENT_COLUMNS " FROM clients ORDER BY id");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_client client;
        read_client(&query, &client);
        more = query.result == TERN_OK && visit(ctx, &client);
    }
    return tern_query_end(&query);
}

// --- Pre-shared keys

enum tern_result tern_db_psk_put(struct tern_db *db, uint64_t client,
                                 const uint8_t key[TERN_SHA256_SIZE])
{
    struct tern_query query =
        tern_query_write(db, "INSERT INTO psk_keys (client, key) VALUES (?, ?)");
    tern_query_bind(&query, client);
    tern_query_bind_blob(&query, key, TERN_SHA256_SIZE);
    return tern_query_run(&query);
}

enum tern_result tern_db_psk_each(struct tern_db *db,
                                  bool (*visit)(void *ctx, uint64_t client,
                                                const uint8_t key[TERN_SHA256_SIZE]),
                                  void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT client, key FROM psk_keys ORDER BY client");
    bool more = true;
    while (more && tern_query_row(&query)) {
        uint8_t key[TERN_SHA256_SIZE];
        uint64_t client = tern_query_u64(&query);
        tern_query_hash(&query, key);
        more = query.result == TERN_OK && visit(ctx, client, key);
    }
    return tern_query_end(&query);
}

// --- Codes

enum tern_result tern_db_code_add(struct tern_db *db, const struct tern_db_code *code)
{
    struct tern_query query =
        tern_query_write(db, "INSERT INTO codes (hash, label, uses_left, expires_ms, created_ms)"
                             " VALUES (?, ?, ?, ?, ?)");
    tern_query_bind_blob(&query, code->hash, TERN_SHA256_SIZE);
    tern_query_bind_text(&query, code->label, sizeof code->label);
    tern_query_bind(&query, code->uses_left);
    tern_query_bind(&query, code->expires_ms);
    tern_query_bind(&query, code->created_ms);
    return tern_query_run(&query);
}

enum tern_result tern_db_code_use(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE],
                                  uint64_t now_ms)
{
    struct tern_query query =
        tern_query_write(db, "UPDATE codes SET uses_left = uses_left - 1"
                             " WHERE hash = ? AND uses_left > 0 AND expires_ms > ?");
    tern_query_bind_blob(&query, hash, TERN_SHA256_SIZE);
    tern_query_bind(&query, now_ms);
    return tern_query_run_one(&query);
}

enum tern_result tern_db_code_each(struct tern_db *db,
                                   bool (*visit)(void *ctx, const struct tern_db_code *code),
                                   void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT hash, label, uses_left, expires_ms, created_ms FROM codes"
                            " ORDER BY created_ms, hash");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_code code;
        tern_query_hash(&query, code.hash);
        tern_query_text(&query, code.label, sizeof code.label);
        code.uses_left = tern_query_u32(&query);
        code.expires_ms = tern_query_u64(&query);
        code.created_ms = tern_query_u64(&query);
        more = query.result == TERN_OK && visit(ctx, &code);
    }
    return tern_query_end(&query);
}

// --- Error ledger

#define LEDGER_COLUMNS                                                                             \
    "client, generation, sequence, norm, maximum, round, loss, update_bytes,"                      \
    " previous_generation, finding, finding_ms, finding_generation, directive, factor, reason,"    \
    " missed_from, told_round"

static void read_ledger(struct tern_query *query, struct tern_db_ledger *ledger)
{
    ledger->client = tern_query_u64(query);
    ledger->generation = tern_query_u32(query);
    ledger->sequence = tern_query_u32(query);
    ledger->norm = tern_query_real(query);
    ledger->maximum = tern_query_real(query);
    ledger->round = tern_query_u32(query);
    ledger->loss = tern_query_real(query);
    ledger->update_bytes = tern_query_u32(query);
    ledger->previous_generation = tern_query_u32(query);
    ledger->finding = tern_query_u32(query);
    ledger->finding_ms = tern_query_u64(query);
    ledger->finding_generation = tern_query_u32(query);
    ledger->directive = tern_query_u32(query);
    ledger->factor = tern_query_real(query);
    tern_query_text(query, ledger->reason, sizeof ledger->reason);
    ledger->missed_from = tern_query_u32(query);
    ledger->told_round = tern_query_u32(query);
}

enum tern_result tern_db_ledger_put(struct tern_db *db, const struct tern_db_ledger *ledger)
{
    struct tern_query query = tern_query_write(
        db, "INSERT INTO ledger (" LEDGER_COLUMNS
            ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (client) DO UPDATE SET generation = excluded.generation,"
            " sequence = excluded.sequence, norm = excluded.norm, maximum = excluded.maximum,"
            " round = excluded.round, loss = excluded.loss, update_bytes = excluded.update_bytes,"
            " previous_generation = excluded.previous_generation, finding = excluded.finding,"
            " finding_ms = excluded.finding_ms, finding_generation = excluded.finding_generation,"
            " directive = excluded.directive, factor = excluded.factor, reason = excluded.reason,"
            " missed_from = excluded.missed_from, told_round = excluded.told_round");
    tern_query_bind(&query, ledger->client);
    tern_query_bind(&query, ledger->generation);
    tern_query_bind(&query, ledger->sequence);
    tern_query_bind_real(&query, (double)ledger->norm);
    tern_query_bind_real(&query, (double)ledger->maximum);
    tern_query_bind(&query, ledger->round);
    tern_query_bind_real(&query, (double)ledger->loss);
    tern_query_bind(&query, ledger->update_bytes);
    tern_query_bind(&query, ledger->previous_generation);
    tern_query_bind(&query, ledger->finding);
    tern_query_bind(&query, ledger->finding_ms);
    tern_query_bind(&query, ledger->finding_generation);
    tern_query_bind(&query, ledger->directive);
    tern_query_bind_real(&query, (double)ledger->factor);
    tern_query_bind_text(&query, ledger->reason, sizeof ledger->reason);
    tern_query_bind(&query, ledger->missed_from);
    tern_query_bind(&query, ledger->told_round);
    return tern_query_run(&query);
}

enum tern_result tern_db_ledger_get(struct tern_db *db, uint64_t client, struct tern_db_ledger *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " LEDGER_COLUMNS " FROM ledger WHERE client = ?");
    tern_query_bind(&query, client);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_ledger(&query, out);
    return tern_query_end(&query);
}

enum tern_result tern_db_ledger_each(struct tern_db *db,
                                     bool (*visit)(void *ctx, const struct tern_db_ledger *ledger),
                                     void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " LEDGER_COLUMNS " FROM ledger ORDER BY client");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_ledger ledger;
        read_ledger(&query, &ledger);
        more = query.result == TERN_OK && visit(ctx, &ledger);
    }
    return tern_query_end(&query);
}

// --- Schedule

enum tern_result tern_db_schedule_put(struct tern_db *db, const struct tern_db_schedule *schedule)
{
    struct tern_query query = tern_query_write(
        db, "INSERT INTO schedule (client, local_steps, reason, updated_ms, codec, policy,"
            " bytes, least_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (client) DO UPDATE SET local_steps = excluded.local_steps,"
            " reason = excluded.reason, updated_ms = excluded.updated_ms, codec = excluded.codec,"
            " policy = excluded.policy, bytes = excluded.bytes,"
            " least_bytes = excluded.least_bytes");
    tern_query_bind(&query, schedule->client);
    tern_query_bind(&query, schedule->local_steps);
    tern_query_bind_text(&query, schedule->reason, sizeof schedule->reason);
    tern_query_bind(&query, schedule->updated_ms);
    tern_query_bind_text(&query, schedule->codec, sizeof schedule->codec);
    tern_query_bind_text(&query, schedule->policy, sizeof schedule->policy);
    tern_query_bind(&query, schedule->bytes);
    tern_query_bind(&query, schedule->least_bytes);
    return tern_query_run(&query);
}

#define SCHEDULE_COLUMNS                                                                           \
    "client, local_steps, reason, updated_ms, codec, policy, bytes, least_bytes"

static void read_schedule(struct tern_query *query, struct tern_db_schedule *schedule)
{
    schedule->client = tern_query_u64(query);
    schedule->local_steps = tern_query_u32(query);
    tern_query_text(query, schedule->reason, sizeof schedule->reason);
    schedule->updated_ms = tern_query_u64(query);
    tern_query_text(query, schedule->codec, sizeof schedule->codec);
    tern_query_text(query, schedule->policy, sizeof schedule->policy);
    schedule->bytes = tern_query_u64(query);
    schedule->least_bytes = tern_query_u64(query);
}

enum tern_result tern_db_schedule_get(struct tern_db *db, uint64_t client,
                                      struct tern_db_schedule *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " SCHEDULE_COLUMNS " FROM schedule WHERE client = ?");
    tern_query_bind(&query, client);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_schedule(&query, out);
    return tern_query_end(&query);
}

enum tern_result
tern_db_schedule_each(struct tern_db *db,
                      bool (*visit)(void *ctx, const struct tern_db_schedule *schedule), void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " SCHEDULE_COLUMNS " FROM schedule ORDER BY client");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_schedule schedule;
        read_schedule(&query, &schedule);
        more = query.result == TERN_OK && visit(ctx, &schedule);
    }
    return tern_query_end(&query);
}

// --- Evaluations

enum tern_result tern_db_evaluation_put(struct tern_db *db,
                                        const struct tern_db_evaluation *evaluation)
{
    struct tern_query query = tern_query_write(
        db, "INSERT INTO evaluations (version, client, num_examples, loss, accuracy)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (version, client) DO UPDATE SET"
            " num_examples = excluded.num_examples, loss = excluded.loss,"
            " accuracy = excluded.accuracy");
    tern_query_bind(&query, evaluation->version);
    tern_query_bind(&query, evaluation->client);
    tern_query_bind(&query, evaluation->num_examples);
    tern_query_bind_real(&query, (double)evaluation->loss);
    tern_query_bind_real(&query, (double)evaluation->accuracy);
    return tern_query_run(&query);
}

enum tern_result tern_db_evaluation_each(struct tern_db *db,
                                         bool (*visit)(void *ctx,
                                                       const struct tern_db_evaluation *evaluation),
                                         void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT version, client, num_examples, loss, accuracy FROM evaluations"
                            " ORDER BY version, client");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_evaluation evaluation;
        evaluation.version = tern_query_u32(&query);
        evaluation.client = tern_query_u64(&query);
        evaluation.num_examples = tern_query_u32(&query);
        evaluation.loss = tern_query_real(&query);
        evaluation.accuracy = tern_query_real(&query);
        more = query.result == TERN_OK && visit(ctx, &evaluation);
    }
    return tern_query_end(&query);
}
