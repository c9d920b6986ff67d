// Sums over history that every invitation, update and exchange add to: gathered in memory and written by
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

// --- Of clients and rounds
//
// Rows of one client come one after the other, and so do those of a round: the sum that goes on is
// in memory.

static bool is_nothing(const struct tern_bytes *up, const struct tern_bytes *down,
                       uint64_t exchanges)
{
    return exchanges + up->wire + down->wire == 0;
}

static enum tern_result write_client(struct tern_db *db)
{
    const struct tern_db_client_total *client = &db->pending.client;
    return client->invited + client->reported == 0 &&
                   is_nothing(&client->up, &client->down, client->exchanges)
               ? TERN_OK
               : tern_table_put(db, CLIENT_TOTALS, client, "");
}

static enum tern_result write_round(struct tern_db *db)
{
    const struct tern_db_round_total *round = &db->pending.round;
    return round->participants == 0 && is_nothing(&round->up, &round->down, round->exchanges)
               ? TERN_OK
               : tern_table_put(db, ROUND_TOTALS, round, "");
}

static enum tern_result go_on_with_client(struct tern_db *db, uint64_t client)
{
    struct tern_pending_totals *pending = &db->pending;
    pending->any = true;
    if (pending->client.client == client) {
        return TERN_OK;
    }
    TERN_TRY(write_client(db));
    pending->client = (struct tern_db_client_total){.client = client};
    return TERN_OK;
}

static enum tern_result go_on_with_round(struct tern_db *db, uint32_t round, bool trains)
{
    struct tern_pending_totals *pending = &db->pending;
    pending->any = true;
    if (pending->round.round == round && pending->round.trains == trains) {
        return TERN_OK;
    }
    TERN_TRY(write_round(db));
    pending->round = (struct tern_db_round_total){.round = round, .trains = trains};
    return TERN_OK;
}

// --- Members of rounds

enum tern_result tern_totals_count_invitation(struct tern_db *db, uint64_t client)
{
    TERN_TRY(go_on_with_client(db, client));
    db->pending.client.invited++;
    return TERN_OK;
}

enum tern_result tern_totals_count_report(struct tern_db *db, uint32_t round, uint64_t client)
{
    struct tern_pending_totals *pending = &db->pending;
    TERN_TRY(go_on_with_client(db, client));
    TERN_TRY(go_on_with_round(db, round, true));
    pending->client.reported++;
    pending->round.participants++;
    pending->all.participants++;
    return TERN_OK;
}

// --- Exchanges

#define ADD(sum, meter)                                                                            \
    do {                                                                                           \
        tern_bytes_add(&(sum)->up, &(meter)->up);                                                  \
        tern_bytes_add(&(sum)->down, &(meter)->down);                                              \
        (sum)->exchanges += (meter)->exchanges;                                                    \
    } while (0)

// Not evaluators, nor peers that never authenticated.
static enum tern_result ask_whether_trains(struct tern_db *db, uint64_t client)
{
    struct tern_pending_totals *pending = &db->pending;
    if (pending->asked == client) {
        return TERN_OK;
    }
    struct tern_query query =
        tern_query_read(db->sql, "SELECT 1 FROM clients WHERE id = ? AND evaluator = 1");
    tern_query_bind(&query, client);
    pending->trains = !tern_query_row(&query) && client != 0;
    pending->asked = client;
    return tern_query_end(&query);
}

enum tern_result tern_totals_count_meter(struct tern_db *db, const struct tern_db_meter *meter)
{
    struct tern_pending_totals *pending = &db->pending;
    TERN_TRY(ask_whether_trains(db, meter->client));
    TERN_TRY(go_on_with_client(db, meter->client));
    TERN_TRY(go_on_with_round(db, meter->round, pending->trains));
    ADD(&pending->client, meter);
    ADD(&pending->round, meter);
    ADD(&pending->purposes[pending->trains][meter->round == 0][meter->purpose], meter);
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
    return is_nothing(&row->up, &row->down, row->exchanges)
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
