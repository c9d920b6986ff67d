// Sums over history that every invitation, update and exchange add to: gathered in memory and written by
// the commit of their transaction.
#include "store/sql_table.h"

#include <stdlib.h>
#include <string.h>

#define PURPOSE_TOTALS &tern_table_purpose_totals
#define ROUND_TOTALS &tern_table_round_totals
#define CLIENT_TOTALS &tern_table_client_totals

void tern_totals_forget(struct tern_db *db)
{
    if (db->pending.any) {
        memset(&db->pending, 0, sizeof db->pending);
    }
    db->evaluators.known = false;
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
// A transaction adds to the same few clients again and again, and to one round: these sums are in memory, and
// written when the place of one is needed for another.

static bool is_nothing(const struct tern_bytes *up, const struct tern_bytes *down,
                       uint64_t exchanges)
{
    return exchanges + up->wire + down->wire == 0;
}

static enum tern_result write_client(struct tern_db *db, const struct tern_db_client_total *client)
{
    return client->invited + client->reported == 0 &&
                   is_nothing(&client->up, &client->down, client->exchanges)
               ? TERN_OK
               : tern_table_put(db, CLIENT_TOTALS, client);
}

static enum tern_result write_round(struct tern_db *db)
{
    const struct tern_db_round_total *round = &db->pending.round;
    return round->participants == 0 && is_nothing(&round->up, &round->down, round->exchanges)
               ? TERN_OK
               : tern_table_put(db, ROUND_TOTALS, round);
}

static struct tern_db_client_total *place_of(struct tern_db *db, uint64_t client)
{
    return &db->pending.clients[client % TERN_CLIENTS_PENDING];
}

static enum tern_result go_on_with_client(struct tern_db *db, uint64_t client)
{
    struct tern_db_client_total *place = place_of(db, client);
    db->pending.any = true;
    if (place->client == client) {
        return TERN_OK;
    }
    TERN_TRY(write_client(db, place));
    *place = (struct tern_db_client_total){.client = client};
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
    place_of(db, client)->invited++;
    return TERN_OK;
}

enum tern_result tern_totals_count_report(struct tern_db *db, uint32_t round, uint64_t client)
{
    struct tern_pending_totals *pending = &db->pending;
    TERN_TRY(go_on_with_client(db, client));
    TERN_TRY(go_on_with_round(db, round, true));
    place_of(db, client)->reported++;
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

static bool has_room_for_evaluator(struct tern_evaluators *evaluators)
{
    if (evaluators->count < evaluators->room) {
        return true;
    }
    const size_t room = evaluators->room * 2 + 64;
    uint64_t *more = realloc(evaluators->ids, room * sizeof more[0]);
    if (more == NULL) {
        return false;
    }
    evaluators->ids = more;
    evaluators->room = room;
    return true;
}

// There are few of them, and a transaction of the meter's asks after many clients.
static enum tern_result know_evaluators(struct tern_db *db)
{
    struct tern_evaluators *evaluators = &db->evaluators;
    if (evaluators->known) {
        return TERN_OK;
    }
    struct tern_query query =
        tern_query_read(db->sql, "SELECT id FROM clients WHERE evaluator = 1 ORDER BY id");
    evaluators->count = 0;
    while (tern_query_row(&query)) {
        if (!has_room_for_evaluator(evaluators)) {
            query.result = tern_sql_fail(db->sql, TERN_ERR_NO_MEMORY, "memory could not be had");
            break;
        }
        evaluators->ids[evaluators->count++] = tern_query_u64(&query);
    }
    const enum tern_result result = tern_query_end(&query);
    evaluators->known = result == TERN_OK;
    return result;
}

static int in_order(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one;
    const uint64_t b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

// Not evaluators, nor peers that never authenticated.
static bool trains(const struct tern_db *db, uint64_t client)
{
    const struct tern_evaluators *evaluators = &db->evaluators;
    return client != 0 &&
           (evaluators->count == 0 || bsearch(&client, evaluators->ids, evaluators->count,
                                              sizeof evaluators->ids[0], in_order) == NULL);
}

enum tern_result tern_totals_count_meter(struct tern_db *db, const struct tern_db_meter *meter)
{
    struct tern_pending_totals *pending = &db->pending;
    TERN_TRY(know_evaluators(db));
    const bool of_training = trains(db, meter->client);
    TERN_TRY(go_on_with_client(db, meter->client));
    TERN_TRY(go_on_with_round(db, meter->round, of_training));
    ADD(place_of(db, meter->client), meter);
    ADD(&pending->round, meter);
    ADD(&pending->purposes[of_training][meter->round == 0][meter->purpose], meter);
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
               : tern_table_put(db, PURPOSE_TOTALS, row);
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
    TERN_TRY(tern_table_put(db, &tern_table_totals, &db->pending.all));
    TERN_TRY(write_purposes(db));
    TERN_TRY(write_round(db));
    for (size_t i = 0; i < TERN_CLIENTS_PENDING; i++) {
        TERN_TRY(write_client(db, &db->pending.clients[i]));
    }
    memset(&db->pending, 0, sizeof db->pending);
    return TERN_OK;
}
