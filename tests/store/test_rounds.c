// Rounds, assignments and updates: what store.h promises of each.
#include "store/fixture.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/postgres/place.h"

#include <stdlib.h>
#include <string.h>

static void a_round_is_kept_and_replaced(void **state)
{
    struct fixture *f = *state;
    struct tern_db_round round = {.round = 1,
                                  .state = TERN_ROUND_OPEN,
                                  .base_version = 4,
                                  .target = 13,
                                  .quorum = 5,
                                  .opened_ms = 100,
                                  .deadline_ms = 200,
                                  .attempts = 2,
                                  .strategy = "fedprox",
                                  .server_learning_rate = 0.5F,
                                  .codec_up = "3lc:s=1.5",
                                  .codec_down = "float16",
                                  .learning_rate = 0.05F};
    struct tern_db_round got;
    assert_int_equal(tern_db_round_last(f->db, &got), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_round_put(f->db, &round));
    round.state = TERN_ROUND_COMMITTED;
    round.closed_ms = 150;
    round.applied = 12;
    round.mean_loss = 0.75F;
    round.median_loss = 0.625F;
    round.variance = 0.125F;
    round.local_steps = 12.5F;
    assert_ok(f, tern_db_round_put(f->db, &round));
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    assert_ok(f, tern_db_round_get(f->db, 1, &got));
    assert_int_equal(got.state, TERN_ROUND_COMMITTED);
    assert_int_equal(got.base_version, 4);
    assert_int_equal(got.target, 13);
    assert_int_equal(got.quorum, 5);
    assert_int_equal(got.opened_ms, 100);
    assert_int_equal(got.deadline_ms, 200);
    assert_int_equal(got.closed_ms, 150);
    assert_int_equal(got.applied, 12);
    assert_true(got.mean_loss == 0.75F);
    assert_true(got.median_loss == 0.625F);
    assert_true(got.variance == 0.125F);
    assert_true(got.local_steps == 12.5F);
    assert_int_equal(got.attempts, 2);
    assert_string_equal(got.strategy, "fedprox");
    assert_true(got.server_learning_rate == 0.5F);
    assert_string_equal(got.codec_up, "3lc:s=1.5");
    assert_string_equal(got.codec_down, "float16");
    assert_true(got.learning_rate == 0.05F);
    assert_int_equal(tern_db_round_get(f->db, 2, &got), TERN_ERR_NOT_FOUND);
}

// Whoever writes from an outdated view (a second service, say) must not undo a commit.
static void a_committed_round_stays_committed(void **state)
{
    struct fixture *f = *state;
    struct tern_db_round round = {.round = 1, .state = TERN_ROUND_OPEN, .deadline_ms = 200};
    struct tern_db_round got;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_round_put(f->db, &round));
    round.state = TERN_ROUND_COMMITTED;
    assert_ok(f, tern_db_round_put(f->db, &round));
    round.state = TERN_ROUND_OPEN;
    round.deadline_ms = 300;
    assert_int_equal(tern_db_round_put(f->db, &round), TERN_ERR_CONFLICT);
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_round_get(f->db, 1, &got));
    assert_int_equal(got.state, TERN_ROUND_COMMITTED);
    assert_int_equal(got.deadline_ms, 200);
}

static void rounds_come_in_order(void **state)
{
    struct fixture *f = *state;
    fixture_round(f, 3);
    fixture_round(f, 12);
    fixture_round(f, 1);
    struct tern_db_round last;
    assert_ok(f, tern_db_round_last(f->db, &last));
    assert_int_equal(last.round, 12);
    uint32_t previous = 0;
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(f->db);
    while (tern_db_next(rows, &row)) {
        assert_true(row.round > previous);
        previous = row.round;
    }
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(previous, 12);
}

static void assignments_belong_to_round_and_client(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    fixture_client(f, 2);
    fixture_round(f, 1);
    fixture_round(f, 2);
    assert_ok(f, tern_db_begin(f->db));
    struct tern_db_assignment a = {.round = 1, .client = 2, .local_steps = 20, .invited_ms = 5};
    const enum tern_db_assignment_state reported = TERN_ASSIGNMENT_REPORTED;
    fixture_assignment(f, &a);
    a.client = 1;
    fixture_assignment(f, &a);
    a.state = TERN_ASSIGNMENT_REPORTED;
    fixture_assignment(f, &a);
    a.state = TERN_ASSIGNMENT_REPLACED;
    assert_int_equal(tern_db_assignment_put(f->db, &a, &reported), TERN_ERR_CONFLICT);
    a.state = TERN_ASSIGNMENT_REPORTED;
    a.round = 2;
    fixture_assignment(f, &a);
    assert_ok(f, tern_db_commit(f->db));
    uint64_t sum = 0;
    struct tern_db_rows *rows = tern_db_assignments(f->db, 1);
    while (tern_db_next(rows, &a)) {
        sum = sum * 100 + a.client * 10 + (uint64_t)a.state;
        assert_int_equal(a.round, 1);
        assert_int_equal(a.local_steps, 20);
    }
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(sum, 1220); // client 1 reported, client 2 invited
}

// --- Updates

struct collected {
    uint64_t clients[8];
    size_t count;
    size_t without_body;
    enum tern_result answer;
};

static enum tern_result collect(void *ctx, const struct tern_db_update *update)
{
    struct collected *collected = ctx;
    collected->clients[collected->count++] = update->client;
    if (update->body == NULL) {
        collected->without_body++;
        return TERN_OK;
    }
    uint8_t *expected = malloc(update->body_len + 1);
    struct tern_db_update same =
        fixture_update(update->round, update->client, expected, update->body_len);
    assert_memory_equal(update->body, expected, update->body_len);
    assert_memory_equal(update->sha256, same.sha256, sizeof same.sha256);
    assert_int_equal(update->received_ms, same.received_ms);
    free(expected);
    return collected->answer;
}

static void put_update(struct fixture *f, uint32_t round, uint64_t client, size_t len)
{
    uint8_t *body = malloc(len + 1);
    struct tern_db_update update = fixture_update(round, client, body, len);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_update_put(f->db, &update));
    assert_ok(f, tern_db_commit(f->db));
    free(body);
}

static void with_three_clients(struct fixture *f)
{
    for (uint8_t i = 1; i <= 3; i++) {
        fixture_client(f, i);
    }
    fixture_round(f, 1);
    fixture_round(f, 2);
}

static void updates_come_back_in_client_order(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    put_update(f, 1, 3, 10240);
    put_update(f, 1, 1, 0);
    put_update(f, 1, 2, 3000000);
    put_update(f, 2, 2, 5);
    fixture_reopen(f);
    struct collected got = {0};
    assert_ok(f, tern_db_update_each(f->db, 1, collect, &got));
    assert_int_equal(got.count, 3);
    assert_int_equal(got.clients[0], 1);
    assert_int_equal(got.clients[1], 2);
    assert_int_equal(got.clients[2], 3);
    assert_int_equal(got.without_body, 0);
}

static void a_visitor_stops_with_its_own_result(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    put_update(f, 1, 1, 9);
    put_update(f, 1, 2, 9);
    struct collected got = {.answer = TERN_ERR_NORM_LIMIT};
    assert_int_equal(tern_db_update_each(f->db, 1, collect, &got), TERN_ERR_NORM_LIMIT);
    assert_int_equal(got.count, 1);
}

static void refuse_assignment(struct fixture *f, const struct tern_db_assignment *assignment,
                              const enum tern_db_assignment_state *before)
{
    assert_ok(f, tern_db_begin(f->db));
    fixture_refused(f, tern_db_assignment_put(f->db, assignment, before));
}

// Who is wrong about what is stored stores nothing.
static void an_assignment_goes_on_from_the_stored_one(void **state)
{
    struct fixture *f = *state;
    const enum tern_db_assignment_state invited = TERN_ASSIGNMENT_INVITED;
    struct tern_db_assignment a = {.round = 1, .client = 1, .state = TERN_ASSIGNMENT_TASKED};
    struct tern_db_assignment got;
    with_three_clients(f);
    refuse_assignment(f, &a, &invited);
    a.client = 9;
    refuse_assignment(f, &a, NULL);
    a.client = 1;
    a.round = 9;
    refuse_assignment(f, &a, NULL);
    a.round = 1;
    assert_int_equal(tern_db_assignment_get(f->db, 1, 1, &got), TERN_ERR_NOT_FOUND);
    a.state = TERN_ASSIGNMENT_REPORTED;
    assert_ok(f, tern_db_begin(f->db));
    fixture_assignment(f, &a);
    assert_ok(f, tern_db_commit(f->db));
    refuse_assignment(f, &a, NULL);
    a.state = TERN_ASSIGNMENT_TASKED;
    refuse_assignment(f, &a, &invited);
    assert_ok(f, tern_db_assignment_get(f->db, 1, 1, &got));
    assert_int_equal(got.state, TERN_ASSIGNMENT_REPORTED);
}

static void an_update_is_stored_once(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    put_update(f, 1, 1, 100);
    uint8_t body[50];
    struct tern_db_update other = fixture_update(1, 1, body, sizeof body);
    assert_ok(f, tern_db_begin(f->db));
    fixture_refused(f, tern_db_update_put(f->db, &other));
    const struct tern_db_assignment strays[] = {{.round = 7, .client = 1},
                                                {.round = 1, .client = 7}};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(f, tern_db_begin(f->db));
        fixture_refused(f, tern_db_assignment_put(f->db, &strays[i], NULL));
    }

    struct tern_db_update found;
    assert_ok(f, tern_db_update_find(f->db, 1, 1, &found));
    assert_int_equal(found.body_len, 100);
    assert_null(found.body);
    assert_int_equal(found.sequence, 1);
    assert_int_equal(tern_db_update_find(f->db, 1, 2, &found), TERN_ERR_NOT_FOUND);
    struct collected got = {0};
    assert_ok(f, tern_db_update_show(f->db, 1, 1, collect, &got));
    assert_int_equal(got.count, 1);
    assert_int_equal(got.without_body, 0);
    assert_int_equal(tern_db_update_show(f->db, 1, 2, collect, &got), TERN_ERR_NOT_FOUND);
    assert_int_equal(got.count, 1);
}

static void prune(struct fixture *f, uint32_t last)
{
    bool more = true;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_prune(f->db, last));
    while (more) {
        assert_ok(f, tern_db_prune_some(f->db, UINT64_MAX, 0, &more));
    }
    assert_ok(f, tern_db_commit(f->db));
}

// Says of which round the client's last update is.
static void put_last(struct fixture *f, uint64_t client, uint32_t round)
{
    const struct tern_db_ledger row = {.client = client, .round = round};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_ledger_put(f->db, &row));
    assert_ok(f, tern_db_commit(f->db));
}

static void retention_drops_bodies_and_keeps_the_last_update(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    put_update(f, 1, 1, 100);
    put_last(f, 1, 1);
    put_update(f, 2, 2, 100);
    put_last(f, 2, 2);
    prune(f, 1);
    struct collected old = {0};
    struct collected kept = {0};
    assert_ok(f, tern_db_update_each(f->db, 1, collect, &old));
    assert_ok(f, tern_db_update_each(f->db, 2, collect, &kept));
    assert_int_equal(old.count, 1);
    assert_int_equal(old.without_body, 1);
    assert_int_equal(kept.without_body, 0);
    struct tern_db_update found;
    assert_ok(f, tern_db_update_find(f->db, 1, 1, &found));
    assert_int_equal(found.body_len, 100);
}

// Commits a round in which 100 bytes were received. with_three_clients() has opened rounds 1 and 2.
static void commit_round(struct fixture *f, uint32_t number)
{
    struct tern_db_round round;
    assert_ok(f, tern_db_round_get(f->db, number, &round));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_received_bytes(f->db, &round.received_bytes));
    round.state = TERN_ROUND_COMMITTED;
    assert_ok(f, tern_db_round_put(f->db, &round));
    assert_ok(f, tern_db_commit(f->db));
}

// An update with all that tells of it beside.
static void put_participation(struct fixture *f, uint32_t round, uint64_t client)
{
    const struct tern_db_assignment asked = {
        .round = round, .client = client, .state = TERN_ASSIGNMENT_REPORTED};
    const struct tern_db_meter meter = {
        .round = round, .client = client, .purpose = TERN_PURPOSE_UPLOAD, .exchanges = 1};
    put_update(f, round, client, 10);
    put_last(f, client, round);
    assert_ok(f, tern_db_begin(f->db));
    fixture_assignment(f, &asked);
    assert_ok(f, tern_db_meter_add(f->db, &meter));
    assert_ok(f, tern_db_commit(f->db));
}

// Whether everything is there that tells of it; it is all or nothing.
static bool is_recorded(struct fixture *f, uint32_t round, uint64_t client)
{
    struct tern_db_update update;
    struct tern_db_assignment asked;
    struct tern_db_meter meter;
    const enum tern_result found = tern_db_update_find(f->db, round, client, &update);
    assert_int_equal(tern_db_assignment_get(f->db, round, client, &asked), found);
    assert_ok(f, tern_db_meter_of(f->db, client, round, &meter));
    assert_int_equal(meter.exchanges, found == TERN_OK ? 1 : 0);
    return found == TERN_OK;
}

static void prune_last(struct fixture *f, uint64_t client, uint32_t round)
{
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_prune_last(f->db, client, round));
    assert_ok(f, tern_db_commit(f->db));
}

// Client 1 goes on, client 2 stays away after round 1. What it said last is there as long as it may say
// it again; the sums never change.
static void retention_drops_rows_that_nobody_needs(void **state)
{
    struct fixture *f = *state;
    struct tern_db_counts counts;
    with_three_clients(f);
    put_participation(f, 1, 1);
    put_participation(f, 1, 2);
    prune_last(f, 1, 1); // not of a round that is not pruned
    put_participation(f, 2, 1);
    assert_true(is_recorded(f, 1, 1));
    commit_round(f, 1);
    prune(f, 1);
    assert_false(is_recorded(f, 1, 1));
    assert_true(is_recorded(f, 1, 2));
    assert_true(is_recorded(f, 2, 1));
    prune_last(f, 2, 1);
    put_participation(f, 2, 2);
    assert_false(is_recorded(f, 1, 2));
    assert_true(is_recorded(f, 2, 2));
    commit_round(f, 2);
    prune(f, 2);
    assert_true(is_recorded(f, 2, 1));
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.updates, 4);
    assert_int_equal(counts.participants, 4);
    assert_int_equal(counts.update_bodies, 0);
    struct tern_db_meter all;
    struct tern_db_meter outside;
    assert_ok(f, tern_db_meter_training(f->db, &all, &outside));
    assert_int_equal(all.exchanges, 4);
    assert_ok(f, tern_db_check(f->db));
}

// One that came late counts in a later round, which needs it.
static void retention_keeps_what_a_kept_round_merges(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    uint8_t body[100];
    struct tern_db_update late = fixture_update(1, 1, body, sizeof body);
    late.merged = 2;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_update_put(f->db, &late));
    assert_ok(f, tern_db_commit(f->db));
    prune(f, 1);
    prune_last(f, 1, 1);
    struct collected got = {0};
    assert_ok(f, tern_db_update_each(f->db, 2, collect, &got));
    assert_int_equal(got.count, 1);
    assert_int_equal(got.without_body, 0);
    prune(f, 2);
    assert_ok(f, tern_db_update_each(f->db, 2, collect, &got));
    assert_int_equal(got.count, 1);
    assert_int_equal(tern_db_update_find(f->db, 1, 1, &late), TERN_ERR_NOT_FOUND);
}

static uint64_t bodies(struct fixture *f)
{
    struct tern_db_counts counts;
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    return counts.update_bodies;
}

static uint32_t goal(struct fixture *f, uint64_t received)
{
    uint32_t round = 0;
    assert_ok(f, tern_db_prune_goal(f->db, received, &round));
    return round;
}

static void retention_goes_by_bytes_of_whole_committed_rounds(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    put_update(f, 1, 1, 100);
    assert_int_equal(goal(f, 1), 0); // it is open
    commit_round(f, 1);
    put_update(f, 2, 1, 60);
    put_update(f, 2, 2, 40);
    commit_round(f, 2);
    assert_int_equal(goal(f, 0), 0);
    assert_int_equal(goal(f, 1), 1);
    assert_int_equal(goal(f, 100), 1);
    assert_int_equal(goal(f, 101), 2);
    assert_int_equal(goal(f, 201), 2);
    prune(f, 2);
    assert_int_equal(goal(f, 1), 2); // what is gone is gone
    assert_int_equal(bodies(f), 0);
}

// Marked at once, dropped in steps: a step drops one body at least, and none of a later round.
static void retention_drops_in_steps(void **state)
{
    struct fixture *f = *state;
    bool more = true;
    with_three_clients(f);
    put_update(f, 1, 1, 100);
    put_update(f, 1, 2, 100);
    put_update(f, 1, 3, 100);
    put_update(f, 2, 1, 100);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_prune(f->db, 1));
    assert_ok(f, tern_db_commit(f->db));
    for (uint64_t left = 4; more; left -= left > 1) {
        assert_int_equal(bodies(f), left);
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_prune_some(f->db, 1, 0, &more));
        assert_ok(f, tern_db_commit(f->db));
    }
    assert_int_equal(bodies(f), 1);
    struct tern_db_counts counts;
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.rounds_pruned, 1);
}

static uint64_t file_bytes(struct fixture *f)
{
    struct tern_db_counts counts;
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    return counts.file_bytes;
}

static void freed_space_is_used_again_and_can_be_given_back(void **state)
{
    struct fixture *f = *state;
    enum { LEN = 1000000 };
    bool more = true;
    with_three_clients(f);
    const uint64_t empty = file_bytes(f);
    put_update(f, 1, 1, LEN);
    const uint64_t full = file_bytes(f);
    prune(f, 1);
    assert_int_equal(file_bytes(f), full);
    put_update(f, 2, 1, LEN);
    assert_true(file_bytes(f) <= full + 4 * 4096);
    prune(f, 2);
    for (int i = 0; more; i++) {
        assert_true(i < 16); // 100,000 bytes in each step
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_shrink_some(f->db, 100000, &more));
        assert_ok(f, tern_db_commit(f->db));
    }
    assert_true(file_bytes(f) <= empty + 8 * 4096);
    assert_ok(f, tern_db_check(f->db));
}

// A file that was copied by other means can have free space and no map by which to give it back.
static void space_that_cannot_be_given_back_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    bool more = true;
    with_three_clients(f);
    put_update(f, 1, 1, 1000000);
    tern_db_close(f->db);
    f->db = NULL;
    run_sql(f->path, "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM");
    fixture_reopen(f);
    prune(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_shrink_some(f->db, 100000, &more));
    assert_ok(f, tern_db_commit(f->db));
    assert_false(more);
}

static void an_over_long_body_is_refused(void **state)
{
    struct fixture *f = *state;
    with_three_clients(f);
    uint8_t body[4];
    struct tern_db_update update = fixture_update(1, 1, body, sizeof body);
    update.body_len = 1000000001u;
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_update_put(f->db, &update), TERN_ERR_TOO_LARGE);
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(tern_db_update_find(f->db, 1, 1, &update), TERN_ERR_NOT_FOUND);
}

// Writes wait for the commit in the store's memory: the caller's bytes may change at once, queries see the rows, and
// after a rollback nothing is left, no id either.
static void rows_that_wait_are_rows(void **state)
{
    struct fixture *f = *state;
    uint8_t body[300];
    struct tern_db_update found;
    struct collected got = {0};
    with_three_clients(f);
    for (int commits = 0; commits < 2; commits++) {
        assert_ok(f, tern_db_begin(f->db));
        for (uint64_t client = 3; client >= 1; client--) {
            const struct tern_db_update update = fixture_update(1, client, body, sizeof body);
            assert_ok(f, tern_db_update_put(f->db, &update));
            memset(body, 0, sizeof body);
        }
        assert_ok(f, tern_db_update_find(f->db, 1, 2, &found));
        assert_int_equal(found.id, 2);
        if (commits == 0) {
            tern_db_rollback(f->db);
            assert_int_equal(tern_db_update_find(f->db, 1, 2, &found), TERN_ERR_NOT_FOUND);
        }
    }
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_update_each(f->db, 1, collect, &got)); // each body by its hash
    assert_int_equal(got.count, 3);
}

#define MORE_THAN_WAIT 600 // rows of one table

static void more_rows_than_may_wait_are_written(void **state)
{
    struct fixture *f = *state;
    struct tern_db_metric metric = {.client = fixture_client(f, 1), .name = "loss"};
    struct tern_db_meter meter = {.client = 1, .exchanges = 1};
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 0; i < MORE_THAN_WAIT; i++) {
        metric.version = i % (MORE_THAN_WAIT / 2); // the later value of a key stays
        metric.value = (float)i;
        meter.round = i % (MORE_THAN_WAIT / 2); // both add up
        assert_ok(f, tern_db_metric_put(f->db, &metric));
        assert_ok(f, tern_db_meter_add(f->db, &meter));
    }
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_rows *rows = tern_db_metrics_from(f->db, 0);
    for (uint32_t i = 0; i < MORE_THAN_WAIT / 2; i++) {
        assert_true(tern_db_next(rows, &metric));
        assert_true(metric.version == i && metric.value == (float)(i + MORE_THAN_WAIT / 2));
    }
    assert_false(tern_db_next(rows, &metric));
    assert_ok(f, tern_db_end(rows));
    for (uint32_t i = 0; i < MORE_THAN_WAIT / 2; i++) {
        assert_ok(f, tern_db_meter_of(f->db, meter.client, i, &meter));
        assert_int_equal(meter.exchanges, 2);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

static int run_tests_of_files(void)
{
    const struct CMUnitTest tests[] = {
        TEST(freed_space_is_used_again_and_can_be_given_back),
        TEST(space_that_cannot_be_given_back_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_round_is_kept_and_replaced),
        TEST(a_committed_round_stays_committed),
        TEST(rounds_come_in_order),
        TEST(assignments_belong_to_round_and_client),
        TEST(updates_come_back_in_client_order),
        TEST(a_visitor_stops_with_its_own_result),
        TEST(an_assignment_goes_on_from_the_stored_one),
        TEST(an_update_is_stored_once),
        TEST(rows_that_wait_are_rows),
        TEST(more_rows_than_may_wait_are_written),
        TEST(retention_drops_bodies_and_keeps_the_last_update),
        TEST(retention_drops_rows_that_nobody_needs),
        TEST(retention_keeps_what_a_kept_round_merges),
        TEST(retention_goes_by_bytes_of_whole_committed_rounds),
        TEST(retention_drops_in_steps),
        TEST(an_over_long_body_is_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (test_store_is_postgres() ? 0 : run_tests_of_files());
}
