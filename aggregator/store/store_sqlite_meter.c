// The meter, and totals for reports.
#include "store/store_sqlite.h"

enum tern_result tern_db_meter_add(struct tern_db *db, const struct tern_db_meter *meter)
{
    struct tern_query query = tern_query_write(
        db,
        "INSERT INTO meter (round, client, purpose, up_payload, up_http, up_tls, up_wire,"
        " down_payload, down_http, down_tls, down_wire, exchanges)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (round, client, purpose) DO UPDATE SET"
        " up_payload = up_payload + excluded.up_payload, up_http = up_http + excluded.up_http,"
        " up_tls = up_tls + excluded.up_tls, up_wire = up_wire + excluded.up_wire,"
        " down_payload = down_payload + excluded.down_payload,"
        " down_http = down_http + excluded.down_http, down_tls = down_tls + excluded.down_tls,"
        " down_wire = down_wire + excluded.down_wire, exchanges = exchanges + excluded.exchanges");
    tern_query_bind(&query, meter->round);
    tern_query_bind(&query, meter->client);
    tern_query_bind(&query, (uint64_t)meter->purpose);
    tern_query_bind(&query, meter->up.payload);
    tern_query_bind(&query, meter->up.http);
    tern_query_bind(&query, meter->up.tls);
    tern_query_bind(&query, meter->up.wire);
    tern_query_bind(&query, meter->down.payload);
    tern_query_bind(&query, meter->down.http);
    tern_query_bind(&query, meter->down.tls);
    tern_query_bind(&query, meter->down.wire);
    tern_query_bind(&query, meter->exchanges);
    return tern_query_run(&query);
}

static void read_bytes(struct tern_query *query, struct tern_bytes *bytes)
{
    bytes->payload = tern_query_u64(query);
    bytes->http = tern_query_u64(query);
    bytes->tls = tern_query_u64(query);
    bytes->wire = tern_query_u64(query);
}

static void read_meter(struct tern_query *query, struct tern_db_meter *meter)
{
    meter->round = tern_query_u32(query);
    meter->client = tern_query_u64(query);
    meter->purpose = (enum tern_purpose)tern_query_u32(query);
    read_bytes(query, &meter->up);
    read_bytes(query, &meter->down);
    meter->exchanges = tern_query_u64(query);
    if (meter->purpose >= TERN_PURPOSE_COUNT) {
        tern_query_damaged(query, "meter.purpose holds a value that is out of range");
    }
}

static enum tern_result each(struct tern_query *query,
                             bool (*visit)(void *ctx, const struct tern_db_meter *meter), void *ctx)
{
    bool more = true;
    while (more && tern_query_row(query)) {
        struct tern_db_meter meter;
        read_meter(query, &meter);
        more = query->result == TERN_OK && visit(ctx, &meter);
    }
    return tern_query_end(query);
}

enum tern_result tern_db_meter_each(struct tern_db *db,
                                    bool (*visit)(void *ctx, const struct tern_db_meter *meter),
                                    void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT round, client, purpose, up_payload, up_http, up_tls, up_wire,"
                            " down_payload, down_http, down_tls, down_wire, exchanges FROM meter"
                            " ORDER BY round, client, purpose");
    return each(&query, visit, ctx);
}

#define SUMS                                                                                       \
    "sum(up_payload), sum(up_http), sum(up_tls), sum(up_wire), sum(down_payload),"                 \
    " sum(down_http), sum(down_tls), sum(down_wire), sum(exchanges) FROM meter"

static const char *grouped_sql(enum tern_db_meter_group group)
{
    switch (group) {
    case TERN_METER_BY_ROUND:
        return "SELECT round, 0, 0, " SUMS " GROUP BY round ORDER BY round";
    case TERN_METER_BY_CLIENT:
        return "SELECT 0, client, 0, " SUMS " GROUP BY client ORDER BY client";
    case TERN_METER_BY_PURPOSE:
    default:
        return "SELECT 0, 0, purpose, " SUMS " GROUP BY purpose ORDER BY purpose";
    }
}

enum tern_result tern_db_meter_of(struct tern_db *db, uint64_t client, uint32_t round,
                                  struct tern_db_meter *out)
{
    // The columns of the group are read first; without rows the sums are NULL, which reads as 0.
    struct tern_query query =
        tern_query_read(db, "SELECT coalesce(max(round), 0), coalesce(max(client), 0), 0, " SUMS
                            " WHERE round = ? AND client = ?");
    tern_query_bind(&query, round);
    tern_query_bind(&query, client);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_meter(&query, out);
    out->client = client;
    out->round = round;
    return tern_query_end(&query);
}

enum tern_result tern_db_meter_sum(struct tern_db *db, enum tern_db_meter_group group,
                                   bool (*visit)(void *ctx, const struct tern_db_meter *meter),
                                   void *ctx)
{
    struct tern_query query = tern_query_read(db, grouped_sql(group));
    return each(&query, visit, ctx);
}

// --- Totals

static enum tern_result count_clients(struct tern_db *db, uint64_t now_ms,
                                      struct tern_db_counts *counts)
{
    struct tern_query query = tern_query_read(
        db, "SELECT count(*), coalesce(sum(revoked), 0), coalesce(sum(evaluator), 0),"
            " (SELECT coalesce(sum(uses_left), 0) FROM codes WHERE expires_ms > ?) FROM clients");
    tern_query_bind(&query, now_ms);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    counts->clients = tern_query_u64(&query);
    counts->clients_revoked = tern_query_u64(&query);
    counts->evaluators = tern_query_u64(&query);
    counts->code_uses_left = tern_query_u64(&query);
    return tern_query_end(&query);
}

static enum tern_result count_rounds(struct tern_db *db, struct tern_db_counts *counts)
{
    struct tern_query query =
        tern_query_read(db, "SELECT coalesce(sum(state = 0), 0), coalesce(sum(state = 1), 0),"
                            " coalesce(sum(applied), 0) FROM rounds");
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    counts->rounds_open = tern_query_u64(&query);
    counts->rounds_committed = tern_query_u64(&query);
    counts->updates_applied = tern_query_u64(&query);
    return tern_query_end(&query);
}

static enum tern_result count_updates(struct tern_db *db, struct tern_db_counts *counts)
{
    struct tern_query query = tern_query_read(
        db, "SELECT count(*), coalesce(sum(size), 0), (SELECT count(*) FROM update_bodies),"
            " (SELECT count(*) FROM downloads),"
            " (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)"
            " FROM updates");
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    counts->updates = tern_query_u64(&query);
    counts->update_bytes = tern_query_u64(&query);
    counts->update_bodies = tern_query_u64(&query);
    counts->downloads = tern_query_u64(&query);
    counts->file_bytes = tern_query_u64(&query);
    return tern_query_end(&query);
}

enum tern_result tern_db_counts(struct tern_db *db, uint64_t now_ms, struct tern_db_counts *counts)
{
    TERN_TRY(count_clients(db, now_ms, counts));
    TERN_TRY(count_rounds(db, counts));
    return count_updates(db, counts);
}
