// Secure rounds: what store.h promises of their facts, sums, masked updates and tickets.
#include "store/fixture.h"
#include "store/store.h"
#include "tests/cases.h"

#include <string.h>

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

struct seen {
    unsigned count;
    unsigned bodies;
    uint64_t client; // of the last one
    size_t body_len;
};

static enum tern_result see(void *ctx, const struct tern_db_update *update)
{
    struct seen *seen = ctx;
    seen->count++;
    seen->bodies += update->body != NULL;
    seen->client = update->client;
    seen->body_len = update->body_len;
    return TERN_OK;
}

static struct seen see_updates(struct fixture *f, uint32_t round)
{
    struct seen seen = {.count = 0};
    assert_ok(f, tern_db_update_each(f->db, round, see, &seen));
    return seen;
}

static struct seen see_masked(struct fixture *f, uint32_t round)
{
    struct seen seen = {.count = 0};
    assert_ok(f, tern_db_masked_each(f->db, round, see, &seen));
    return seen;
}

// A round with masked updates of clients 1 and 2.
static void put_masked(struct fixture *f, uint32_t round)
{
    uint8_t body[100];
    fixture_round(f, round);
    assert_ok(f, tern_db_begin(f->db));
    for (uint64_t client = 1; client <= 2; client++) {
        struct tern_db_update update = fixture_update(round, client, body, sizeof body);
        update.merged = TERN_DB_MASKED;
        assert_ok(f, tern_db_update_put(f->db, &update));
    }
    assert_ok(f, tern_db_commit(f->db));
}

static void put_sum(struct fixture *f, uint32_t round)
{
    struct tern_db_secure_sum sum = {.round = round, .received_ms = 5, .body = {"the sum", 7}};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_secure_sum_put(f->db, &sum));
    assert_ok(f, tern_db_masked_drop(f->db, round));
    assert_ok(f, tern_db_commit(f->db));
}

static uint64_t received_bytes(struct fixture *f)
{
    uint64_t bytes = 0;
    assert_ok(f, tern_db_received_bytes(f->db, &bytes));
    return bytes;
}

TEST(the_sum_stands_for_the_masked_updates_of_its_round)
{
    struct fixture *f = *state;
    struct tern_db_update found;
    fixture_client(f, 1);
    fixture_client(f, 2);
    put_masked(f, 1);
    assert_int_equal(see_updates(f, 1).count, 0);
    assert_int_equal(see_masked(f, 1).bodies, 2);
    assert_int_equal(received_bytes(f), 0);
    put_sum(f, 1);
    fixture_reopen(f);
    const struct seen seen = see_updates(f, 1);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.client, 0);
    assert_int_equal(seen.body_len, 7);
    assert_int_equal(received_bytes(f), 7);
    // The rows stay, by which an update that comes again is recognised.
    assert_int_equal(see_masked(f, 1).count, 2);
    assert_int_equal(see_masked(f, 1).bodies, 0);
    assert_ok(f, tern_db_update_find(f->db, 1, 2, &found));
    assert_ok(f, tern_db_check(f->db));
}

TEST(an_abandoned_round_stays_so_and_counts_as_over)
{
    struct fixture *f = *state;
    struct tern_db_round row = {.round = 1, .state = TERN_ROUND_ABANDONED};
    struct tern_db_counts counts;
    strcpy(row.reason, "helper-silent: it gave no sum");
    fixture_client(f, 1);
    fixture_client(f, 2);
    put_masked(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_masked_drop(f->db, 1));
    assert_ok(f, tern_db_round_put(f->db, &row));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_round_get(f->db, 1, &row));
    assert_string_equal(row.reason, "helper-silent: it gave no sum");
    row.state = TERN_ROUND_OPEN;
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_round_put(f->db, &row), TERN_ERR_CONFLICT);
    tern_db_rollback(f->db);
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.rounds_open, 0);
    assert_int_equal(counts.rounds_committed, 0);
    assert_int_equal(counts.update_bodies, 0);
    assert_int_equal(counts.updates, 2);
}

TEST(retention_drops_sums_of_pruned_rounds)
{
    struct fixture *f = *state;
    bool more = true;
    fixture_client(f, 1);
    fixture_client(f, 2);
    for (uint32_t round = 1; round <= 2; round++) {
        struct tern_db_round row = {.round = round, .state = TERN_ROUND_COMMITTED};
        put_masked(f, round);
        put_sum(f, round);
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_round_put(f->db, &row));
        assert_ok(f, tern_db_commit(f->db));
    }
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_prune(f->db, 1));
    while (more) {
        assert_ok(f, tern_db_prune_some(f->db, 1 << 20, 0, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(see_updates(f, 1).count, 0);
    assert_int_equal(see_masked(f, 1).count, 0); // nor its rows
    assert_int_equal(see_updates(f, 2).count, 1);
    assert_int_equal(see_masked(f, 2).count, 2);
}

static void put_state(struct fixture *f, uint32_t round, enum tern_db_secure_state to)
{
    struct tern_db_secure_round row = {
        .round = round, .state = to, .asked_ms = 9, .facts = {"facts", 5}};
    row.log_count = 11;
    row.log_head[3] = 7;
    row.log_signature_s[31] = 9;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_secure_round_put(f->db, &row));
    assert_ok(f, tern_db_commit(f->db));
}

TEST(the_facts_of_a_round_are_kept)
{
    struct fixture *f = *state;
    struct tern_db_secure_round row;
    for (uint32_t round = 1; round <= 3; round++) {
        fixture_round(f, round);
    }
    put_state(f, 1, TERN_SECURE_SUMMED);
    put_state(f, 2, TERN_SECURE_TRAINING);
    put_state(f, 2, TERN_SECURE_SUMMED);
    put_state(f, 3, TERN_SECURE_ABANDONED);
    fixture_reopen(f);
    struct tern_db_rows *rows = tern_db_secure_last_summed(f->db);
    assert_true(tern_db_next(rows, &row));
    assert_int_equal(row.round, 2);
    assert_int_equal(row.facts.len, 5);
    assert_memory_equal(row.facts.data, "facts", 5);
    assert_int_equal(row.log_count, 11);
    assert_int_equal(row.log_head[3], 7);
    assert_int_equal(row.log_signature_r[31], 0);
    assert_int_equal(row.log_signature_s[31], 9);
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
    rows = tern_db_secure_round(f->db, 4);
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
}

static void put_ticket(struct fixture *f, uint64_t client, uint32_t epoch,
                       enum tern_db_ticket_state to)
{
    struct tern_db_ticket row = {
        .client = client, .epoch = epoch, .state = to, .sealed = {"sealed", 6}};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_ticket_put(f->db, &row));
    assert_ok(f, tern_db_commit(f->db));
}

static unsigned count_rows(struct fixture *f, struct tern_db_rows *rows)
{
    struct tern_db_ticket row;
    unsigned count = 0;
    while (tern_db_next(rows, &row)) {
        assert_memory_equal(row.sealed.data, "sealed", 6);
        count++;
    }
    assert_ok(f, tern_db_end(rows));
    return count;
}

TEST(a_client_has_one_ticket_an_epoch)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    fixture_client(f, 2);
    put_ticket(f, 1, 1, TERN_TICKET_WAITING);
    put_ticket(f, 1, 1, TERN_TICKET_ADMITTED);
    put_ticket(f, 2, 1, TERN_TICKET_WAITING);
    put_ticket(f, 2, 2, TERN_TICKET_WAITING);
    uint32_t admitted = 9;
    assert_ok(f, tern_db_tickets_admitted(f->db, &admitted)); // of epoch 2
    assert_int_equal(admitted, 0);
    put_ticket(f, 2, 2, TERN_TICKET_ADMITTED);
    assert_ok(f, tern_db_tickets_admitted(f->db, &admitted));
    assert_int_equal(admitted, 1);
    put_ticket(f, 2, 2, TERN_TICKET_WAITING);
    assert_int_equal(count_rows(f, tern_db_tickets(f->db)), 3);
    assert_int_equal(count_rows(f, tern_db_tickets_waiting(f->db, 9)), 2);
    assert_int_equal(count_rows(f, tern_db_tickets_waiting(f->db, 1)), 1);
    assert_int_equal(count_rows(f, tern_db_ticket(f->db, 2, 2)), 1);
    assert_int_equal(count_rows(f, tern_db_ticket(f->db, 1, 2)), 0);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_tickets_drop(f->db, 2));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(count_rows(f, tern_db_tickets(f->db)), 1);
}
