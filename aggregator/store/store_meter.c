// The meter of bytes, its sums over history, and counts of rows for reports.
#include "store/tables.h"

#include <assert.h>
#include <stdlib.h>

#define METER &tern_table_meter

// --- Sums over history: each exchange adds to them, since nobody counts rows that only become more

static enum tern_result keep_evaluator(struct tern_db *db, uint64_t id)
{
    uint64_t *ids = realloc(db->evaluators, (db->evaluator_count + 1) * sizeof ids[0]);
    if (ids == NULL) {
        return tern_sql_fail(db->sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    db->evaluators = ids;
    ids[db->evaluator_count++] = id;
    return TERN_OK;
}

// Caches the ids of evaluators: there are few, and metering looks up many clients.
static enum tern_result load_evaluators(struct tern_db *db)
{
    tern_db_refresh(db);
    if (db->knows_evaluators) {
        return TERN_OK;
    }
    struct tern_query query =
        tern_db_read(db, "SELECT id FROM clients WHERE evaluator = 1 ORDER BY id", NULL);
    enum tern_result kept = TERN_OK;
    db->evaluator_count = 0;
    while (kept == TERN_OK && tern_query_row(&query)) {
        kept = keep_evaluator(db, tern_query_u64(&query));
    }
    const enum tern_result result = tern_query_end(&query);
    db->knows_evaluators = result == TERN_OK && kept == TERN_OK;
    return result == TERN_OK ? kept : result;
}

static int in_order(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one;
    const uint64_t b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

// Whether the client trains: no evaluator and no unauthenticated peer (0) does.
static bool trains(const struct tern_db *db, uint64_t client)
{
    return client != 0 &&
           (db->evaluator_count == 0 || bsearch(&client, db->evaluators, db->evaluator_count,
                                                sizeof db->evaluators[0], in_order) == NULL);
}

static enum tern_result add_to_sums(struct tern_db *db, const struct tern_db_meter *meter)
{
    TERN_TRY(load_evaluators(db));
    const bool of_training = trains(db, meter->client);
    const struct tern_db_client_total client = {.client = meter->client,
                                                .up = meter->up,
                                                .down = meter->down,
                                                .exchanges = meter->exchanges};
    const struct tern_db_round_total round = {.round = meter->round,
                                              .trains = of_training,
                                              .up = meter->up,
                                              .down = meter->down,
                                              .exchanges = meter->exchanges};
    const struct tern_purpose_total_row purpose = {.trains = of_training,
                                                   .outside = meter->round == 0,
                                                   .purpose = meter->purpose,
                                                   .up = meter->up,
                                                   .down = meter->down,
                                                   .exchanges = meter->exchanges};
    TERN_TRY(tern_table_put(db, &tern_table_client_totals, &client));
    TERN_TRY(tern_table_put(db, &tern_table_round_totals, &round));
    return tern_table_put(db, &tern_table_purpose_totals, &purpose);
}

// --- The meter

enum tern_result tern_db_meter_add(struct tern_db *db, const struct tern_db_meter *meter)
{
    bool dropped = false;
    if (meter->round > 0) {
        TERN_TRY(tern_retention_has_dropped(db, meter->round, &dropped));
    }
    if (!dropped) { // retention would never drop the row of a round that it has finished
        TERN_TRY(tern_table_put(db, METER, meter));
    }
    return add_to_sums(db, meter);
}

enum tern_result tern_db_meter_of(struct tern_db *db, uint64_t client, uint32_t round,
                                  struct tern_db_meter *out)
{
    *out = (struct tern_db_meter){.client = client, .round = round};
    return tern_db_may_miss(
        tern_table_get(db, METER, "WHERE round = ? AND client = ?", TERN_BIND(round, client), out));
}

// Columns of a sum over any of the tables of byte counts.
static const struct tern_column sum_columns[] = {
    TERN_TABLE_COLUMN(tern_db_meter, ENUM, purpose, purpose, KEY, , )
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_meter, __VA_ARGS__)
#include "store/tables/meter.def"
};
static const struct tern_table sums = {"meter", sum_columns,
                                       sizeof sum_columns / sizeof sum_columns[0]};

struct tern_db_rows *tern_db_meter_sums(struct tern_db *db, enum tern_db_meter_group group)
{
    static const char *const columns[] = {[TERN_METER_BY_PURPOSE] = "purpose",
                                          [TERN_METER_BY_CLIENT] = "client",
                                          [TERN_METER_BY_ROUND] = "round"};
    static const char *const tails[] = {
        [TERN_METER_BY_PURPOSE] = "FROM purpose_totals GROUP BY purpose ORDER BY purpose",
        [TERN_METER_BY_CLIENT] = "FROM client_totals WHERE up_wire + down_wire > 0"
                                 " GROUP BY client ORDER BY client",
        [TERN_METER_BY_ROUND] = "FROM round_totals WHERE up_wire + down_wire > 0"
                                " GROUP BY round ORDER BY round"};
    return tern_table_rows(tern_table_sums(db, &sums, columns[group], tails[group], NULL), &sums);
}

static enum tern_result sum_of(struct tern_db *db, const char *tail, struct tern_db_meter *out)
{
    struct tern_query query = tern_table_sums(db, &sums, NULL, tail, NULL);
    return tern_table_one(&query, &sums, out);
}

enum tern_result tern_db_meter_training(struct tern_db *db, struct tern_db_meter *all,
                                        struct tern_db_meter *outside)
{
    TERN_TRY(sum_of(db, "FROM purpose_totals WHERE trains = 1", all));
    return sum_of(db, "FROM purpose_totals WHERE trains = 1 AND outside = 1", outside);
}

// --- Totals

// The commit of a round adds its assignments to the sums (store_rounds.c). Until then, readers add them.
#define BYTES                                                                                      \
    " up_payload, up_http, up_tls, up_wire, down_payload, down_http, down_tls, down_wire,"         \
    " exchanges "
#define UNCOUNTED " FROM assignments WHERE round > (SELECT counted_round FROM totals)"

struct tern_db_rows *tern_db_round_totals_after(struct tern_db *db, uint32_t after)
{
    static const char text[] =
        "SELECT sums.round, trains, sums.participants + coalesce(recent.participants, 0)," BYTES
        "FROM round_totals AS sums LEFT JOIN (SELECT round, count(*) AS participants" UNCOUNTED
        " AND state = 2 GROUP BY round) AS recent ON recent.round = sums.round"
        " WHERE trains = 1 AND sums.round > ? AND sums.participants"
        " + coalesce(recent.participants, 0) + up_wire + down_wire > 0 ORDER BY sums.round";
    return tern_table_rows(tern_db_read(db, text, TERN_BIND(after)), &tern_table_round_totals);
}

struct tern_db_rows *tern_db_client_totals_from(struct tern_db *db, uint64_t first)
{
    static const char text[] =
        "SELECT sums.client, sums.invited + coalesce(recent.invited, 0),"
        " sums.reported + coalesce(recent.reported, 0)," BYTES
        "FROM client_totals AS sums LEFT JOIN (SELECT client, count(*) AS invited,"
        " sum(CASE state WHEN 2 THEN 1 ELSE 0 END) AS reported" UNCOUNTED
        " GROUP BY client) AS recent ON recent.client = sums.client"
        " WHERE sums.client >= ? ORDER BY sums.client";
    return tern_table_rows(tern_db_read(db, text, TERN_BIND(first)), &tern_table_client_totals);
}

static_assert(TERN_ROUND_OPEN == 0, "counts.def says so");
static_assert(TERN_REPLICA_WHOLE == 3 && (int)TERN_VECTOR_OF_REPLICA == 4,
              "replica_totals.def says so");

// The first expression of a list has no comma before it.
#define TOTAL(name, text, json) ", (SELECT " text ")"
static const char counts_text[] = "SELECT 0"
#include "store/tables/counts.def"
    ;
#define TOTAL(name, text, json) ", (SELECT " text ")"
static const char replica_totals_text[] = "SELECT 0"
#include "store/tables/replica_totals.def"
    ;

static bool has_totals(struct tern_query *query)
{
    return tern_query_row(query) && tern_query_u64(query) == 0;
}

enum tern_result tern_db_counts(struct tern_db *db, uint64_t now_ms, struct tern_db_counts *counts)
{
    struct tern_query query = tern_db_read(db, counts_text, TERN_BIND(now_ms));
    if (has_totals(&query)) {
#define TOTAL(name, text, json) counts->name = tern_query_u64(&query);
#include "store/tables/counts.def"
    }
    TERN_TRY(tern_query_end(&query));
    return tern_db_bytes(db, &counts->file_bytes);
}

enum tern_result tern_db_replica_totals(struct tern_db *db, struct tern_db_replica_totals *totals)
{
    struct tern_query query = tern_db_read(db, replica_totals_text, NULL);
    if (has_totals(&query)) {
#define TOTAL(name, text, json) totals->name = tern_query_u64(&query);
#include "store/tables/replica_totals.def"
    }
    return tern_query_end(&query);
}
