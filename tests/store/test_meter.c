// The meter and the totals: what store.h promises of each.
#include "store/fixture.h"
#include "store/store.h"
#include "tests/cases.h"

#include <string.h>

static void add(struct fixture *f, uint64_t client, uint32_t round, enum tern_purpose purpose)
{
    struct tern_db_meter meter = {.client = client,
                                  .round = round,
                                  .purpose = purpose,
                                  .up = {1, 2, 3, 4},
                                  .down = {10, 20, 30, 40},
                                  .exchanges = 1};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_meter_add(f->db, &meter));
    assert_ok(f, tern_db_commit(f->db));
}

struct rows {
    struct tern_db_meter row[8];
    size_t count;
};

static struct rows all_of(struct fixture *f, struct tern_db_rows *from)
{
    struct rows rows = {.count = 0};
    while (tern_db_next(from, &rows.row[rows.count])) {
        rows.count++;
    }
    assert_ok(f, tern_db_end(from));
    return rows;
}

static uint64_t exchanges_of(struct fixture *f, uint64_t client, uint32_t round)
{
    struct tern_db_meter row;
    assert_ok(f, tern_db_meter_of(f->db, client, round, &row));
    return row.exchanges;
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(counters_add_up_per_client_and_round)
{
    struct fixture *f = *state;
    add(f, 2, 1, TERN_PURPOSE_UPLOAD);
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    add(f, 0, 0, TERN_PURPOSE_HANDSHAKE); // nobody known, no round
    fixture_reopen(f);
    struct tern_db_meter row;
    assert_ok(f, tern_db_meter_of(f->db, 1, 1, &row));
    assert_int_equal(row.up.payload, 2);
    assert_int_equal(row.up.wire, 8);
    assert_int_equal(row.down.http, 40);
    assert_int_equal(row.down.tls, 60);
    assert_int_equal(row.exchanges, 2);
    assert_int_equal(exchanges_of(f, 2, 1), 1);
    assert_int_equal(exchanges_of(f, 0, 0), 1);
    assert_int_equal(exchanges_of(f, 1, 0), 0);
}

TEST(one_round_of_a_client_is_summed)
{
    struct fixture *f = *state;
    struct tern_db_meter sum;
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    add(f, 1, 1, TERN_PURPOSE_DOWNLOAD);
    add(f, 1, 2, TERN_PURPOSE_UPLOAD);
    add(f, 2, 1, TERN_PURPOSE_UPLOAD);
    assert_ok(f, tern_db_meter_of(f->db, 1, 1, &sum));
    assert_int_equal(sum.client, 1);
    assert_int_equal(sum.round, 1);
    assert_int_equal(sum.up.wire, 8);
    assert_int_equal(sum.down.payload, 20);
    assert_int_equal(sum.exchanges, 2);
    assert_ok(f, tern_db_meter_of(f->db, 7, 1, &sum));
    assert_int_equal(sum.client, 7);
    assert_int_equal(sum.up.wire + sum.down.wire + sum.exchanges, 0);
}

TEST(sums_agree_with_the_rows)
{
    struct fixture *f = *state;
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    add(f, 1, 2, TERN_PURPOSE_UPLOAD);
    add(f, 2, 2, TERN_PURPOSE_DOWNLOAD);
    struct rows by_round = all_of(f, tern_db_meter_sums(f->db, TERN_METER_BY_ROUND));
    struct rows by_client = all_of(f, tern_db_meter_sums(f->db, TERN_METER_BY_CLIENT));
    struct rows by_purpose = all_of(f, tern_db_meter_sums(f->db, TERN_METER_BY_PURPOSE));
    assert_int_equal(by_round.count, 2);
    assert_int_equal(by_round.row[1].round, 2);
    assert_int_equal(by_round.row[1].down.wire, 80);
    assert_int_equal(by_client.count, 2);
    assert_int_equal(by_client.row[0].client, 1);
    assert_int_equal(by_client.row[0].up.tls, 6);
    assert_int_equal(by_purpose.count, 2);
    assert_int_equal(by_purpose.row[0].purpose, TERN_PURPOSE_DOWNLOAD);
    assert_int_equal(by_purpose.row[1].exchanges, 2);
}

static void put_assignment(struct fixture *f, uint32_t round, uint64_t client,
                           enum tern_db_assignment_state state)
{
    const struct tern_db_assignment row = {.round = round, .client = client, .state = state};
    assert_ok(f, tern_db_begin(f->db));
    fixture_assignment(f, &row);
    assert_ok(f, tern_db_commit(f->db));
}

// Client 1 trains, 2 is an evaluator; client 1 reports in round 1, is asked in round 2.
static void make_history(struct fixture *f)
{
    fixture_client(f, 1);
    struct tern_db_client evaluator = {.token_hash = {2}, .evaluator = true};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_add(f->db, &evaluator));
    assert_ok(f, tern_db_commit(f->db));
    fixture_round(f, 1);
    fixture_round(f, 2);
    put_assignment(f, 1, 1, TERN_ASSIGNMENT_INVITED);
    put_assignment(f, 1, 1, TERN_ASSIGNMENT_REPORTED);
    put_assignment(f, 1, 1, TERN_ASSIGNMENT_REPORTED);
    put_assignment(f, 2, 1, TERN_ASSIGNMENT_TASKED);
    put_assignment(f, 2, 1, TERN_ASSIGNMENT_REPLACED);
    add(f, 1, 0, TERN_PURPOSE_HANDSHAKE);
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    add(f, 2, 1, TERN_PURPOSE_DOWNLOAD);
    add(f, 0, 0, TERN_PURPOSE_HANDSHAKE);
}

TEST(sums_over_history_tell_who_trains)
{
    struct fixture *f = *state;
    struct tern_db_meter all;
    struct tern_db_meter outside;
    struct tern_db_counts counts;
    make_history(f);
    assert_ok(f, tern_db_meter_training(f->db, &all, &outside));
    assert_int_equal(all.up.wire, 3 * 4);
    assert_int_equal(all.exchanges, 3);
    assert_int_equal(outside.up.wire, 4);
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.participants, 1);

    struct tern_db_round_total round;
    struct tern_db_rows *rows = tern_db_round_totals_after(f->db, 0);
    assert_true(tern_db_next(rows, &round));
    assert_int_equal(round.round, 1);
    assert_int_equal(round.participants, 1);
    assert_int_equal(round.up.payload, 2);
    assert_int_equal(round.exchanges, 2);
    assert_false(
        tern_db_next(rows, &round)); // round 2 had bytes of others only, and no participant
    assert_ok(f, tern_db_end(rows));
}

static void expect_sums(struct fixture *f, uint64_t participants, uint32_t in_round_1,
                        uint32_t invited, uint32_t reported)
{
    struct tern_db_counts counts;
    struct tern_db_round_total round;
    struct tern_db_client_total client;
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.participants, participants);
    struct tern_db_rows *rows = tern_db_round_totals_after(f->db, 0);
    assert_true(tern_db_next(rows, &round));
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(round.participants, in_round_1);
    rows = tern_db_client_totals_from(f->db, 1);
    assert_true(tern_db_next(rows, &client));
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(client.invited, invited);
    assert_int_equal(client.reported, reported);
}

// The commit adds the round to the sums; until then, and of what comes later, they are the same.
TEST(a_commit_adds_its_round_to_the_sums_once)
{
    struct fixture *f = *state;
    const struct tern_db_round round = {.round = 1, .state = TERN_ROUND_COMMITTED};
    make_history(f);
    expect_sums(f, 1, 1, 2, 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_round_put(f->db, &round));
        assert_ok(f, tern_db_commit(f->db));
        expect_sums(f, 1, 1, 2, 1);
        fixture_reopen(f);
    }
    put_assignment(f, 1, 2, TERN_ASSIGNMENT_TASKED); // of the committed round
    put_assignment(f, 1, 2, TERN_ASSIGNMENT_REPORTED);
    expect_sums(f, 2, 2, 2, 1);
    put_assignment(f, 2, 1, TERN_ASSIGNMENT_REPORTED);
    expect_sums(f, 3, 2, 2, 2);
    assert_ok(f, tern_db_begin(f->db)); // a commit that fails adds nothing
    assert_ok(f, tern_db_round_put(
                     f->db, &(struct tern_db_round){.round = 2, .state = TERN_ROUND_COMMITTED}));
    tern_db_rollback(f->db);
    expect_sums(f, 3, 2, 2, 2);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_round_put(
                     f->db, &(struct tern_db_round){.round = 2, .state = TERN_ROUND_COMMITTED}));
    assert_ok(f, tern_db_commit(f->db));
    expect_sums(f, 3, 2, 2, 2);
}

TEST(sums_over_history_tell_of_each_client)
{
    struct fixture *f = *state;
    struct tern_db_client_total client;
    make_history(f);
    struct tern_db_rows *rows = tern_db_client_totals_from(f->db, 0);
    assert_true(tern_db_next(rows, &client));
    assert_int_equal(client.client, 0);
    assert_true(tern_db_next(rows, &client));
    assert_int_equal(client.client, 1);
    assert_int_equal(client.invited, 2);
    assert_int_equal(client.reported, 1);
    assert_int_equal(client.down.wire, 120);
    assert_true(tern_db_next(rows, &client));
    assert_int_equal(client.client, 2);
    assert_int_equal(client.invited, 0);
    assert_false(tern_db_next(rows, &client));
    assert_ok(f, tern_db_end(rows));
}

static enum tern_result meter_upload(struct tern_db *db, uint32_t round, uint64_t client)
{
    const struct tern_db_meter row = {
        .round = round, .client = client, .purpose = TERN_PURPOSE_UPLOAD, .exchanges = 1};
    return tern_db_meter_add(db, &row);
}

// More than a transaction keeps in memory, and in an order in which they take each other's place.
#define CROWD 600

TEST(each_of_a_crowd_has_its_sums)
{
    struct fixture *f = *state;
    struct tern_db_client_total total;
    uint64_t count = 0;
    assert_ok(f, tern_db_begin(f->db));
    for (uint64_t i = 0; i < 2 * CROWD; i++) {
        assert_ok(f, meter_upload(f->db, 0, 1 + i % CROWD));
    }
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_rows *rows = tern_db_client_totals_from(f->db, 0);
    while (tern_db_next(rows, &total)) {
        assert_int_equal(total.client, ++count);
        assert_int_equal(total.exchanges, 2);
    }
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(count, CROWD);
}

TEST(who_has_just_come_evaluates)
{
    struct fixture *f = *state;
    struct tern_db_client evaluator = {.token_hash = {2}, .evaluator = true};
    struct tern_db_meter all;
    struct tern_db_meter outside;
    fixture_client(f, 1);
    fixture_round(f, 1);
    for (int kept = 0; kept < 2; kept++) { // the first one is gone with its transaction
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, meter_upload(f->db, 1, 1));
        assert_ok(f, tern_db_client_add(f->db, &evaluator));
        assert_int_equal(evaluator.id, 2);
        assert_ok(f, meter_upload(f->db, 1, 2));
        if (kept) {
            assert_ok(f, tern_db_commit(f->db));
        } else {
            tern_db_rollback(f->db);
            assert_ok(f, tern_db_begin(f->db));
            assert_ok(f, meter_upload(f->db, 1, 2)); // nobody who evaluates
            assert_ok(f, tern_db_commit(f->db));
        }
    }
    assert_ok(f, tern_db_meter_training(f->db, &all, &outside));
    assert_int_equal(all.exchanges, 2);
}

// begin looks whether others have written, or does not.
static void expect_no_row(struct fixture *f, bool looks)
{
    assert_ok(f, tern_db_begin(f->db));
    if (looks) {
        assert_true(tern_db_changed_by_others(f->db));
    }
    assert_ok(f, meter_upload(f->db, 1, 1));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(exchanges_of(f, 1, 1), 0);
}

TEST(what_others_have_dropped_is_known)
{
    struct fixture *f = *state;
    struct tern_db_round round = {.round = 1, .state = TERN_ROUND_COMMITTED};
    struct tern_db *other = NULL;
    char why[256];
    for (int looks = 0; looks < 2; looks++) {
        fixture_teardown(state);
        fixture_setup(state);
        f = *state;
        assert_int_equal(tern_db_open(f->path, TERN_DB_SECOND, &other, why), TERN_OK);
        fixture_client(f, 1);
        assert_ok(f, tern_db_begin(f->db));
        (void)tern_db_changed_by_others(f->db);
        assert_ok(f, tern_db_round_put(f->db, &round));
        assert_ok(f, meter_upload(f->db, 1, 1));
        assert_ok(f, tern_db_commit(f->db));
        assert_int_equal(exchanges_of(f, 1, 1), 1);
        assert_int_equal(tern_db_begin(other), TERN_OK);
        assert_int_equal(tern_db_prune(other, 1), TERN_OK);
        for (bool more = true; more;) {
            assert_int_equal(tern_db_prune_some(other, UINT64_MAX, 0, &more), TERN_OK);
        }
        assert_int_equal(tern_db_commit(other), TERN_OK);
        expect_no_row(f, looks);
        tern_db_close(other);
    }
}

TEST(a_commit_and_retention_are_counted_once)
{
    struct fixture *f = *state;
    struct tern_db_counts counts;
    uint8_t body[100];
    struct tern_db_round round = {.round = 1, .state = TERN_ROUND_COMMITTED, .applied = 3};
    fixture_client(f, 1);
    fixture_round(f, 1);
    struct tern_db_update update = fixture_update(1, 1, body, sizeof body);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_update_put(f->db, &update));
    assert_ok(f, tern_db_round_put(f->db, &round));
    assert_ok(f, tern_db_round_put(f->db, &round));
    bool more = false;
    assert_ok(f, tern_db_prune(f->db, 1));
    assert_ok(f, tern_db_prune_some(f->db, UINT64_MAX, 0, &more));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.rounds_open, 0);
    assert_int_equal(counts.rounds_committed, 1);
    assert_int_equal(counts.updates_applied, 3);
    assert_int_equal(counts.updates, 1);
    assert_int_equal(counts.update_bytes, 100);
    assert_int_equal(counts.update_bodies, 0);
    // Late bytes of a round whose rows were pruned are added to the sums only.
    assert_ok(f, tern_db_begin(f->db));
    for (more = true; more;) {
        assert_ok(f, tern_db_prune_some(f->db, UINT64_MAX, 0, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
    add(f, 1, 1, TERN_PURPOSE_UPLOAD);
    assert_int_equal(exchanges_of(f, 1, 1), 0);
    const struct rows sums = all_of(f, tern_db_meter_sums(f->db, TERN_METER_BY_ROUND));
    assert_int_equal(sums.count, 1);
    assert_int_equal(sums.row[0].up.wire, 4);
}

// Metrics of the version that the round began with, and late metrics of older versions.
TEST(metrics_go_with_their_round)
{
    struct fixture *f = *state;
    struct tern_db_metric metric = {.name = "loss"};
    bool more = true;
    metric.client = fixture_client(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 1; i <= 4; i++) {
        const struct tern_db_round round = {
            .round = i, .base_version = i - 1, .state = TERN_ROUND_COMMITTED};
        metric.version = i - 1;
        assert_ok(f, tern_db_round_put(f->db, &round));
        assert_ok(f, tern_db_metric_put(f->db, &metric));
    }
    assert_ok(f, tern_db_prune(f->db, 2));
    while (more) {
        assert_ok(f, tern_db_prune_some(f->db, UINT64_MAX, 0, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
    uint32_t next = 2;
    struct tern_db_rows *rows = tern_db_metrics_from(f->db, 0);
    while (tern_db_next(rows, &metric)) {
        assert_int_equal(metric.version, next++);
    }
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(next, 4);
}

TEST(counts_tell_what_is_there)
{
    struct fixture *f = *state;
    struct tern_db_counts counts;
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.clients, 0);
    assert_int_equal(counts.updates, 0);
    fixture_client(f, 1);
    uint64_t gone = fixture_client(f, 2);
    fixture_round(f, 1);
    uint8_t body[100];
    struct tern_db_update update = fixture_update(1, 1, body, sizeof body);
    struct tern_db_code code = {.uses_left = 5, .expires_ms = 50};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_revoke(f->db, gone));
    assert_ok(f, tern_db_update_put(f->db, &update));
    assert_ok(f, tern_db_code_add(f->db, &code));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_counts(f->db, 49, &counts));
    assert_int_equal(counts.clients, 2);
    assert_int_equal(counts.clients_revoked, 1);
    assert_int_equal(counts.evaluators, 0);
    assert_int_equal(counts.code_uses_left, 5);
    assert_int_equal(counts.rounds_open, 1);
    assert_int_equal(counts.rounds_committed, 0);
    assert_int_equal(counts.updates, 1);
    assert_int_equal(counts.update_bytes, 100);
    assert_int_equal(counts.update_bodies, 1);
    assert_true(counts.file_bytes > 0);
    assert_ok(f, tern_db_counts(f->db, 50, &counts));
    assert_int_equal(counts.code_uses_left, 0);
}
