// Sums over history that every update and every exchange add to: gathered in memory and written by
// the commit of their transaction.
#include "store/table.h"

#include <string.h>

#define PURPOSE_TOTALS &tern_table_purpose_totals
#define ROUND_TOTALS &tern_table_round_totals
#define CLIENT_TOTALS &tern_table_client_totals

void tern_totals_forget(struct tern_db *db)
{
    memset(&db->pending, 0, sizeof db->pending);
}

void tern_totals_count_update(struct tern_db *db, size_t body_len)
{
    struct tern_totals_row *all = &db->pending.all;
    all->updates++;
    all->update_bodies++;
    all->update_bytes += body_len;
    db->pending.any = true;
}

// --- Exchanges

#define ADD(sum, meter)                                                                            \
    do {                                                                                           \
        tern_bytes_add(&(sum)->up, &(meter)->up);                                                  \
        tern_bytes_add(&(sum)->down, &(meter)->down);                                              \
        (sum)->exchanges += (meter)->exchanges;                                                    \
    } while (0)

// Rows of one client come one after the other, and so do those of a round: the sum that goes on is
// in memory.
static enum tern_result write_client(struct tern_db *db)
{
    const struct tern_db_client_total *client = &db->pending.client;
    return client->exchanges + client->up.wire + client->down.wire == 0
               ? TERN_OK
               : tern_table_put(db, CLIENT_TOTALS, client, "");
}

static enum tern_result write_round(struct tern_db *db)
{
    const struct tern_db_round_total *round = &db->pending.round;
    return round->exchanges + round->up.wire + round->down.wire == 0
               ? TERN_OK
               : tern_table_put(db, ROUND_TOTALS, round, "");
}

// Not evaluators, nor peers that never authenticated.
static enum tern_result ask_whether_trains(struct tern_db *db, uint64_t client, bool *trains)
{
    struct tern_query query =
        tern_query_read(db->sql, "SELECT 1 FROM clients WHERE id = ? AND evaluator = 1");
    tern_query_bind(&query, client);
    *trains = !tern_query_row(&query) && client != 0;
    return tern_query_end(&query);
}

static enum tern_result go_on_with_client(struct tern_db *db, uint64_t client)
{
    struct tern_pending_totals *pending = &db->pending;
    if (pending->client.exchanges > 0 && pending->client.client == client) {
        return TERN_OK;
    }
    TERN_TRY(write_client(db));
    pending->client = (struct tern_db_client_total){.client = client};
    return ask_whether_trains(db, client, &pending->trains);
}

static enum tern_result go_on_with_round(struct tern_db *db, uint32_t round)
{
    struct tern_pending_totals *pending = &db->pending;
    if (pending->round.round == round && pending->round.trains == pending->trains) {
        return TERN_OK;
    }
    TERN_TRY(write_round(db));
    pending->round = (struct tern_db_round_total){.round = round, .trains = pending->trains};
    return TERN_OK;
}

enum tern_result tern_totals_count_meter(struct tern_db *db, const struct tern_db_meter *meter)
{
    struct tern_pending_totals *pending = &db->pending;
    TERN_TRY(go_on_with_client(db, meter->client));
    TERN_TRY(go_on_with_round(db, meter->round));
    ADD(&pending->client, meter);
    ADD(&pending->round, meter);
    ADD(&pending->purposes[pending->trains][meter->round == 0][meter->purpose], meter);
    pending->any = true;
    return TERN_OK;
}

// --- At the commit

static enum tern_result write_purpose(struct tern_db *db, unsigned trains, unsigned outside,
                                      unsigned purpose)
{
    struct tern_purpose_total_row *row = &db->pending.purposes[trains][outside][purpose];
    row->trains = trains == 1;
    row->outside = outside == 1;
    row->purpose = (enum tern_purpose)purpose;
    return row->exchanges + row->up.wire + row->down.wire == 0
               ? TERN_OK
               : tern_table_put(db, PURPOSE_TOTALS, row, "");
}

static enum tern_result write_purposes(struct tern_db *db)
{
    for (unsigned trains = 0; trains < 2; trains++) {
        for (unsigned purpose = 0; purpose < TERN_PURPOSE_COUNT; purpose++) {
            TERN_TRY(write_purpose(db, trains, 0, purpose));
            TERN_TRY(write_purpose(db, trains, 1, purpose));
        }
    }
    return TERN_OK;
}

enum tern_result tern_totals_write(struct tern_db *db)
{
    if (!db->pending.any || !tern_sql_may_commit(db->sql)) {
        return TERN_OK;
    }
    db->pending.all.id = 1;
    TERN_TRY(tern_table_put(db, &tern_table_totals, &db->pending.all, ""));
    TERN_TRY(write_purposes(db));
    TERN_TRY(write_round(db));
    TERN_TRY(write_client(db));
    tern_totals_forget(db);
    return TERN_OK;
}
