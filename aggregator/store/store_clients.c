// Clients with their keys, join codes, error ledgers, schedules, evaluations and statistics.
#include "store/tables.h"

#include <string.h>

#define CLIENTS &tern_table_clients
#define PSK_KEYS &tern_table_psk_keys
#define LEDGER &tern_table_ledger
#define SCHEDULE &tern_table_schedule
#define EVALUATIONS &tern_table_evaluations
#define METRICS &tern_table_metrics
#define STATISTICS &tern_table_statistics
#define TICKETS &tern_table_tickets

enum tern_result tern_db_client_add(struct tern_db *db, struct tern_db_client *client)
{
    client->has_psk = false;
    db->knows_evaluators = db->knows_evaluators && !client->evaluator;
    return tern_table_insert(db, CLIENTS, client);
}

enum tern_result tern_db_client_get(struct tern_db *db, uint64_t id, struct tern_db_client *client)
{
    return tern_table_get(db, CLIENTS, "WHERE id = ?", TERN_BIND(id), client);
}

enum tern_result tern_db_client_update(struct tern_db *db, const struct tern_db_client *client)
{
    return tern_table_update(db, CLIENTS, client, "");
}

static enum tern_result write_for_client(struct tern_db *db, const char *text, uint64_t client)
{
    return tern_query_run_one(tern_db_write(db, text, TERN_BIND(client)));
}

enum tern_result tern_db_client_revoke(struct tern_db *db, uint64_t id)
{
    TERN_TRY(write_for_client(db, "UPDATE clients SET revoked = 1, has_psk = 0 WHERE id = ?", id));
    return tern_db_may_miss(write_for_client(db, "DELETE FROM psk_keys WHERE client = ?", id));
}

enum tern_result tern_db_client_tag(struct tern_db *db, uint64_t id,
                                    const char tags[TERN_DB_TAGS_MAX])
{
    const struct tern_sql_value parameters[] = {
        tern_sql_field(tags, TERN_DB_TAGS_MAX), tern_sql_number(id), {.type = TERN_SQL_TYPES}};
    return tern_query_run_one(
        tern_db_write(db, "UPDATE clients SET tags = ? WHERE id = ?", parameters));
}

struct tern_db_rows *tern_db_clients(struct tern_db *db)
{
    return tern_table_list(db, CLIENTS, "ORDER BY id", NULL);
}

enum tern_result tern_db_sum_unreported(struct tern_db *db, double least, double below,
                                        struct tern_db_unreported *unreported)
{
    struct tern_query query =
        tern_db_read(db,
                     "SELECT count(*), coalesce(sum(unreported), 0.0) FROM clients"
                     " WHERE unreported > 0 AND unreported >= ? AND unreported < ? AND revoked = 0",
                     TERN_BIND(least, below));
    *unreported = (struct tern_db_unreported){.clients = 0};
    if (tern_query_row(&query)) {
        unreported->clients = tern_query_u64(&query);
        unreported->sum = (double)tern_query_real(&query);
    }
    return tern_query_end(&query);
}

struct tern_db_rows *tern_db_failing(struct tern_db *db, uint32_t limit)
{
    return tern_table_list(
        db, CLIENTS,
        "WHERE failed_round > 0 AND revoked = 0 ORDER BY failed_round DESC, id LIMIT ?",
        TERN_BIND(limit));
}

enum tern_result tern_db_count_failing(struct tern_db *db, uint64_t *clients)
{
    return tern_query_get(
        tern_db_read(db, "SELECT count(*) FROM clients WHERE failed_round > 0 AND revoked = 0",
                     NULL),
        clients);
}

enum tern_result tern_db_column_names(struct tern_db *db, struct tern_db_column_names *names)
{
    struct tern_query query = tern_db_read(db,
                                           "SELECT column_names, count(*) FROM clients"
                                           " WHERE column_names <> 0 AND revoked = 0"
                                           " GROUP BY column_names ORDER BY count(*) DESC, min(id)",
                                           NULL);
    *names = (struct tern_db_column_names){.usual = 0};
    while (tern_query_row(&query)) {
        const uint32_t tag = (uint32_t)tern_query_number(&query, UINT32_MAX);
        const uint64_t clients = tern_query_u64(&query);
        if (names->usual == 0) {
            *names = (struct tern_db_column_names){.usual = tag, .clients = clients};
        } else {
            names->others += clients;
        }
    }
    return tern_query_end(&query);
}

struct tern_db_rows *tern_db_clients_of_other_columns(struct tern_db *db, uint32_t usual,
                                                      uint32_t limit)
{
    return tern_table_list(db, CLIENTS,
                           "WHERE column_names <> 0 AND column_names <> ? AND revoked = 0"
                           " ORDER BY id LIMIT ?",
                           TERN_BIND(usual, limit));
}

struct tern_db_rows *tern_db_clients_after(struct tern_db *db, uint64_t after, uint32_t limit)
{
    return tern_table_list(db, CLIENTS, "WHERE id > ? ORDER BY id LIMIT ?",
                           TERN_BIND(after, limit));
}

// --- Pre-shared keys

enum tern_result tern_db_psk_put(struct tern_db *db, uint64_t client,
                                 const uint8_t key[TERN_SHA256_SIZE])
{
    struct tern_db_psk row = {.client = client};
    memcpy(row.key, key, sizeof row.key);
    TERN_TRY(tern_table_insert(db, PSK_KEYS, &row));
    return write_for_client(db, "UPDATE clients SET has_psk = 1 WHERE id = ?", client);
}

struct tern_db_rows *tern_db_psks(struct tern_db *db)
{
    return tern_table_list(db, PSK_KEYS, "ORDER BY client", NULL);
}

// --- Codes

enum tern_result tern_db_code_add(struct tern_db *db, const struct tern_db_code *code)
{
    struct tern_db_code row = *code;
    return tern_table_insert(db, &tern_table_codes, &row);
}

enum tern_result tern_db_code_get(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE],
                                  struct tern_db_code *code)
{
    return tern_table_get(db, &tern_table_codes, "WHERE hash = ?", TERN_BIND(hash), code);
}

struct tern_db_rows *tern_db_codes(struct tern_db *db)
{
    return tern_table_list(db, &tern_table_codes, "ORDER BY created_ms, hash", NULL);
}

enum tern_result tern_db_code_cancel(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE])
{
    return tern_query_run_one(
        tern_db_write(db, "UPDATE codes SET uses_left = 0 WHERE hash = ?", TERN_BIND(hash)));
}

enum tern_result tern_db_clients_of_code(struct tern_db *db, const char *code, uint64_t *count)
{
    return tern_query_get(
        tern_db_read(db, "SELECT count(*) FROM clients WHERE code = ?", TERN_BIND(code)), count);
}

enum tern_result tern_db_code_use(struct tern_db *db, const uint8_t hash[TERN_SHA256_SIZE],
                                  uint64_t now_ms)
{
    return tern_query_run_one(tern_db_write(db,
                                            "UPDATE codes SET uses_left = uses_left - 1"
                                            " WHERE hash = ? AND uses_left > 0 AND expires_ms > ?",
                                            TERN_BIND(hash, now_ms)));
}

// --- Error ledger

enum tern_result tern_db_ledger_put(struct tern_db *db, const struct tern_db_ledger *ledger)
{
    return tern_table_put(db, LEDGER, ledger);
}

enum tern_result tern_db_ledger_get(struct tern_db *db, uint64_t client, struct tern_db_ledger *out)
{
    return tern_table_get(db, LEDGER, "WHERE client = ?", TERN_BIND(client), out);
}

struct tern_db_rows *tern_db_ledgers_after(struct tern_db *db, uint64_t after)
{
    return tern_table_list(db, LEDGER, "WHERE client > ? ORDER BY client", TERN_BIND(after));
}

// --- Schedule

enum tern_result tern_db_schedule_put(struct tern_db *db, const struct tern_db_schedule *schedule)
{
    return tern_table_put(db, SCHEDULE, schedule);
}

enum tern_result tern_db_schedule_get(struct tern_db *db, uint64_t client,
                                      struct tern_db_schedule *out)
{
    return tern_table_get(db, SCHEDULE, "WHERE client = ?", TERN_BIND(client), out);
}

struct tern_db_rows *tern_db_schedules(struct tern_db *db)
{
    return tern_table_list(db, SCHEDULE, "ORDER BY client", NULL);
}

struct tern_db_rows *tern_db_schedules_after(struct tern_db *db, uint64_t after)
{
    return tern_table_list(db, SCHEDULE, "WHERE client > ? ORDER BY client", TERN_BIND(after));
}

// --- Evaluations

const char *tern_evaluated_name(enum tern_db_evaluated model)
{
    return model == TERN_EVALUATED_GLOBAL ? "global" : "replica";
}

enum tern_result tern_db_evaluation_put(struct tern_db *db,
                                        const struct tern_db_evaluation *evaluation)
{
    return tern_table_put(db, EVALUATIONS, evaluation);
}

// Clients keep being evaluators for good, so the list of revoked clients is read once for each statement.
#define NOT_REVOKED "client NOT IN (SELECT id FROM clients WHERE revoked = 1)"

struct tern_db_rows *tern_db_evaluations_from(struct tern_db *db, uint32_t version)
{
    return tern_table_list(db, EVALUATIONS,
                           "WHERE version >= ? AND " NOT_REVOKED
                           " ORDER BY version, model, late, client",
                           TERN_BIND(version));
}

struct tern_db_rows *tern_db_evaluations_of(struct tern_db *db, uint32_t version)
{
    return tern_table_list(db, EVALUATIONS,
                           "WHERE version = ? AND " NOT_REVOKED " ORDER BY model, late, client",
                           TERN_BIND(version));
}

enum tern_result tern_db_evaluated_last(struct tern_db *db, uint32_t *version)
{
    struct tern_query query =
        tern_db_read(db, "SELECT coalesce(max(version), -1) + 1 FROM evaluations", NULL);
    const uint64_t next =
        tern_query_row(&query) ? tern_query_number(&query, (uint64_t)UINT32_MAX + 1) : 0;
    TERN_TRY(tern_query_end(&query));
    *version = next > 0 ? (uint32_t)(next - 1) : 0;
    return next > 0 ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// Descriptions of query results, which tern_table_rows() reads like rows of a table.
static const struct tern_column reports_columns[] = {
    TERN_TABLE_COLUMN(tern_db_reports, U32, version, , SET, , )
        TERN_TABLE_COLUMN(tern_db_reports, ENUM, model, evaluated, SET, , )
            TERN_TABLE_COLUMN(tern_db_reports, U64, created_ms, , SET, , )
                TERN_TABLE_COLUMN(tern_db_reports, U32, reports, , SET, , )
                    TERN_TABLE_COLUMN(tern_db_reports, U32, in_time, , SET, , )};
static const struct tern_column evaluators_columns[] = {
    TERN_TABLE_COLUMN(tern_db_evaluator, U64, created_ms, , SET, , )
        TERN_TABLE_COLUMN(tern_db_evaluator, U64, last_seen_ms, , SET, , )};
static const struct tern_table reports_result = {
    "reports", reports_columns, sizeof reports_columns / sizeof reports_columns[0]};
static const struct tern_table evaluators_result = {
    "evaluators", evaluators_columns, sizeof evaluators_columns / sizeof evaluators_columns[0]};

struct tern_db_rows *tern_db_reports(struct tern_db *db, uint32_t first, uint32_t last)
{
    struct tern_query query =
        tern_db_read(db,
                     "SELECT counted.version, counted.model, coalesce(versions.created_ms, 0),"
                     " counted.reports, counted.in_time FROM"
                     " (SELECT version, model, count(*) AS reports, " TERN_SUM_OF(
                         "1 - late") " AS in_time FROM evaluations"
                                     " WHERE version >= ? AND version <= ? AND " NOT_REVOKED
                                     " GROUP BY version, model) AS counted"
                                     " LEFT JOIN versions ON versions.version = counted.version"
                                     " ORDER BY counted.version, counted.model",
                     TERN_BIND(first, last));
    return tern_table_rows(query, &reports_result);
}

struct tern_db_rows *tern_db_evaluators(struct tern_db *db)
{
    return tern_table_rows(tern_db_read(db,
                                        "SELECT created_ms, last_seen_ms FROM clients"
                                        " WHERE evaluator = 1 AND revoked = 0 AND last_seen_ms > 0",
                                        NULL),
                           &evaluators_result);
}

enum tern_result tern_db_metric_put(struct tern_db *db, const struct tern_db_metric *metric)
{
    return tern_table_put(db, METRICS, metric);
}

enum tern_result tern_db_metrics_drop(struct tern_db *db, uint32_t version, uint64_t client)
{
    return tern_query_post(tern_db_write(db, "DELETE FROM metrics WHERE version = ? AND client = ?",
                                         TERN_BIND(version, client)));
}

enum tern_result tern_db_metric_names(struct tern_db *db, uint64_t client,
                                      char names[][TERN_DB_METRIC_MAX], uint32_t most,
                                      uint32_t *count)
{
    struct tern_query query =
        tern_db_read(db, "SELECT DISTINCT name FROM metrics WHERE client = ? ORDER BY name LIMIT ?",
                     TERN_BIND(client, most));
    *count = 0;
    while (*count < most && tern_query_row(&query)) {
        tern_query_text(&query, names[(*count)++], TERN_DB_METRIC_MAX);
    }
    return tern_query_end(&query);
}

struct tern_db_rows *tern_db_metrics_from(struct tern_db *db, uint32_t version)
{
    return tern_table_list(db, METRICS,
                           "WHERE version >= ? AND of_evaluator = 0 ORDER BY version, name, client",
                           TERN_BIND(version));
}

struct tern_db_rows *tern_db_evaluation_metrics_from(struct tern_db *db, uint32_t version)
{
    return tern_table_list(db, METRICS,
                           "WHERE version >= ? AND of_evaluator = 1 AND " NOT_REVOKED
                           " ORDER BY version, model, late, client, name",
                           TERN_BIND(version));
}

struct tern_db_rows *tern_db_evaluation_metrics_of(struct tern_db *db, uint32_t version)
{
    return tern_table_list(db, METRICS,
                           "WHERE version = ? AND of_evaluator = 1 AND " NOT_REVOKED
                           " ORDER BY model, late, client, name",
                           TERN_BIND(version));
}

// --- Statistics

enum tern_result tern_db_statistics_add(struct tern_db *db, struct tern_db_statistics *statistics)
{
    tern_sha256(statistics->body.data, statistics->body.len, statistics->sha256);
    return tern_table_insert(db, STATISTICS, statistics);
}

struct tern_db_rows *tern_db_statistics(struct tern_db *db)
{
    return tern_table_list(db, STATISTICS, "ORDER BY client", NULL);
}

enum tern_result tern_db_statistics_set_clock(struct tern_db *db, int64_t step)
{
    return tern_query_post(tern_db_write(
        db, "UPDATE statistics SET received_ms = " TERN_NOT_BEFORE_1("received_ms + ?1"),
        TERN_BIND(step)));
}

// --- Keys of TLS session tickets, which the store cannot read

#define TICKET_KEYS &tern_table_ticket_keys

enum tern_result tern_db_ticket_keys_get(struct tern_db *db, const uint8_t sealer[TERN_SHA256_SIZE],
                                         uint8_t *sealed, size_t size, size_t *len)
{
    struct tern_db_ticket_keys row;
    struct tern_query query =
        tern_table_select(db, TICKET_KEYS, "WHERE sealer = ?", TERN_BIND(sealer));
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
    return tern_query_run(
        tern_db_write(db, "DELETE FROM ticket_keys WHERE changed_ms < ?", TERN_BIND(before_ms)));
}

// --- Tickets for the helper of secure rounds

enum tern_result tern_db_ticket_put(struct tern_db *db, const struct tern_db_ticket *ticket)
{
    return tern_table_put(db, TICKETS, ticket);
}

struct tern_db_rows *tern_db_tickets(struct tern_db *db)
{
    return tern_table_list(db, TICKETS, "ORDER BY client, epoch", NULL);
}

struct tern_db_rows *tern_db_ticket(struct tern_db *db, uint64_t client, uint32_t epoch)
{
    return tern_table_list(db, TICKETS, "WHERE client = ? AND epoch = ?", TERN_BIND(client, epoch));
}

struct tern_db_rows *tern_db_tickets_waiting(struct tern_db *db, uint32_t limit)
{
    return tern_table_list(db, TICKETS, "WHERE state = 0 ORDER BY epoch, client LIMIT ?",
                           TERN_BIND(limit));
}

_Static_assert(TERN_TICKET_WAITING == 0 && TERN_TICKET_ADMITTED == 1, "SQL has 0 and 1");

enum tern_result tern_db_tickets_admitted(struct tern_db *db, uint32_t *clients)
{
    return tern_query_get_u32(
        tern_db_read(db,
                     "SELECT count(*) FROM tickets JOIN clients ON tickets.client = clients.id"
                     " WHERE tickets.state = 1 AND clients.revoked = 0"
                     " AND tickets.epoch = (SELECT max(epoch) FROM tickets)",
                     NULL),
        clients);
}

enum tern_result tern_db_tickets_drop(struct tern_db *db, uint32_t epoch)
{
    return tern_query_post(
        tern_db_write(db, "DELETE FROM tickets WHERE epoch < ?", TERN_BIND(epoch)));
}

// Rounds whose sum the helper was asked for. It may have answered although the round was abandoned.
#define ASKED                                                                                      \
    " FROM rounds JOIN secure_rounds ON secure_rounds.round = rounds.round WHERE asked_ms > 0"

enum tern_result tern_db_exposure(struct tern_db *db, struct tern_db_exposure *exposure)
{
    struct tern_query query = tern_db_read(
        db,
        "SELECT (SELECT coalesce(min(round), 0) FROM rounds WHERE mode = 0),"
        " (SELECT coalesce(min(rounds.round), 0)" ASKED " AND noise = 0),"
        " (SELECT count(*)" ASKED " AND noise > 0),"
        " (SELECT coalesce(min(noise), 0)" ASKED " AND noise > 0),"
        " (SELECT coalesce(max(applied), 0)" ASKED " AND noise > 0),"
        " (SELECT count(*) FROM statistics), (SELECT count(*) FROM"
        " (SELECT 1 FROM evaluations LIMIT 1) AS first_evaluation), (SELECT count(*) FROM"
        " (SELECT 1 FROM metrics WHERE of_evaluator = 0 LIMIT 1) AS first_metric),"
        " coalesce((SELECT id FROM clients WHERE privacy_loss > 0 ORDER BY privacy_loss DESC, id"
        " LIMIT 1), 0), coalesce((SELECT max(privacy_loss) FROM clients), 0.0)",
        NULL);
    *exposure = (struct tern_db_exposure){.worst_client = 0};
    if (tern_query_row(&query)) {
        exposure->plain_round = tern_query_u64(&query);
        exposure->bare_round = tern_query_u64(&query);
        exposure->rounds = tern_query_u64(&query);
        exposure->least_noise = tern_query_u64(&query);
        exposure->most_updates = tern_query_u64(&query);
        exposure->statistics = tern_query_u64(&query);
        exposure->has_evaluations = tern_query_u64(&query) > 0;
        exposure->has_metrics = tern_query_u64(&query) > 0;
        exposure->worst_client = tern_query_u64(&query);
        exposure->worst_loss = tern_query_real(&query);
    }
    return tern_query_end(&query);
}

_Static_assert(TERN_ROUND_PLAIN == 0, "SQL has 0");
