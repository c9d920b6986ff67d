// Writes that are queued in libpq's pipeline: they fail, are rolled back and are lost as those that are waited for, and
// take few trips.
#include "store/postgres_server.h"

#include <string.h>

static enum tern_result queue_schedule(struct tern_db *db, uint32_t local_steps)
{
    const struct tern_db_schedule row = {.client = 1, .local_steps = local_steps};
    return tern_db_schedule_put(db, &row);
}

static enum tern_result queue_ledger(struct tern_db *db, uint32_t sequence)
{
    const struct tern_db_ledger row = {.client = 1, .sequence = sequence};
    return tern_db_ledger_put(db, &row);
}

static uint32_t scheduled(struct fixture *f)
{
    struct tern_db_schedule row = {.local_steps = 0};
    assert_ok(f, tern_db_may_miss(tern_db_schedule_get(f->db, 1, &row)));
    return row.local_steps;
}

static uint32_t in_ledger(struct fixture *f)
{
    struct tern_db_ledger row = {.sequence = 0};
    assert_ok(f, tern_db_may_miss(tern_db_ledger_get(f->db, 1, &row)));
    return row.sequence;
}

// The disk is full for each new row of the schedule.
static void fill_disk(struct fixture *f)
{
    do_sql(f->path,
           "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION"
           " 'no space left' USING ERRCODE = '53100'; END$$;"
           "CREATE TRIGGER fail BEFORE INSERT ON schedule FOR EACH ROW EXECUTE FUNCTION fail()");
}

static void expect_full_disk(struct tern_db *db)
{
    assert_non_null(strstr(tern_db_error(db), "the disk of PostgreSQL is full"));
    assert_non_null(strstr(tern_db_error(db), "INSERT INTO schedule"));
}

static void a_queued_write_that_fails_ends_its_transaction(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    const uint64_t id = fixture_client(f, 1);
    fill_disk(f);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_ledger(f->db, 7));
    assert_ok(f, queue_schedule(f->db, 1));
    assert_ok(f, queue_ledger(f->db, 8));
    // A query of the table finds the failure, which ends all that follows.
    struct tern_db_schedule row;
    assert_int_equal(tern_db_schedule_get(f->db, 1, &row), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(tern_db_client_get(f->db, id, &client), TERN_ERR_IO);
    assert_int_equal(add(f->db, 2), TERN_ERR_IO);
    assert_int_equal(queue_ledger(f->db, 9), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(tern_db_commit(f->db), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(in_ledger(f), 0);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_ledger(f->db, 10));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(in_ledger(f), 10);
}

// With nothing between that looks: COMMIT is on its way along with it.
static void a_queued_write_that_fails_is_found_by_the_commit(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    fill_disk(f);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_ledger(f->db, 7));
    assert_ok(f, queue_schedule(f->db, 1));
    assert_int_equal(tern_db_commit(f->db), TERN_ERR_IO);
    expect_full_disk(f->db);
    assert_int_equal(in_ledger(f), 0);
    assert_int_equal(add_alone(f->db, 2), TERN_OK);
}

// As by SQLite: what fails by itself is no reason to end the transaction of what was queued before it.
static void a_queued_write_outlives_a_refused_one(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 1));
    assert_int_equal(add(f->db, 1), TERN_ERR_CONFLICT);
    assert_ok(f, queue_ledger(f->db, 7));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(scheduled(f), 1);
    assert_int_equal(in_ledger(f), 7);
}

static void what_is_queued_is_rolled_back(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 1));
    tern_db_rollback(f->db);
    assert_int_equal(scheduled(f), 0);
    struct tern_db *other = open_at(f->path);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(queue_schedule(other, 2), TERN_OK);
    tern_db_close(other); // and by a close
    assert_int_equal(scheduled(f), 0);
    fill_disk(f); // what would fail, too, unseen
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 3));
    tern_db_rollback(f->db);
    assert_int_equal(scheduled(f), 0);
    assert_int_equal(add_alone(f->db, 2), TERN_OK);
}

// The server finds nothing wrong with it: no COMMIT may be on its way yet.
static void a_change_of_nothing_stores_nothing(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.id = fixture_client(f, 1)};
    for (uint32_t i = 1; i <= 2;
         i++) { // the first time to have the statements prepared, which looks
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, queue_schedule(f->db, i));
        assert_ok(f, queue_ledger(f->db, i));
        assert_ok(f, tern_db_client_update(f->db, &client));
        assert_int_equal(tern_db_commit(f->db), i == 1 ? TERN_OK : TERN_ERR_IO);
        client.id = 77;
    }
    assert_non_null(strstr(tern_db_error(f->db), "UPDATE clients"));
    assert_int_equal(scheduled(f), 1);
    assert_int_equal(in_ledger(f), 1);
}

static void what_is_queued_is_lost_with_its_connection(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    const uint64_t id = fixture_client(f, 1);
    const struct named named = open_named(f);
    for (int looks = 0; looks < 2; looks++) {
        assert_int_equal(tern_db_begin(named.db), TERN_OK);
        assert_int_equal(queue_schedule(named.db, 1), TERN_OK);
        end_connection(&named);
        assert_int_equal(queue_schedule(named.db, 2), TERN_OK); // nobody has looked
        if (looks) {
            struct tern_db_schedule row;
            assert_int_equal(tern_db_schedule_get(named.db, 1, &row), TERN_ERR_IO);
        }
        assert_int_equal(tern_db_commit(named.db), TERN_ERR_IO);
        assert_true(tern_db_error(named.db)[0] != '\0');
        assert_int_equal(scheduled(f), 0);
        assert_int_equal(tern_db_client_get(named.db, id, &client), TERN_OK);
    }
    assert_int_equal(tern_db_begin(named.db), TERN_OK);
    assert_int_equal(queue_schedule(named.db, 3), TERN_OK);
    assert_int_equal(tern_db_commit(named.db), TERN_OK);
    assert_int_equal(scheduled(f), 3);
    tern_db_close(named.db);
}

// COMMIT goes along with what is queued, and its reply is lost.
static void a_queue_whose_reply_is_lost_was_stored(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    const struct between between = start_between(f, CUT_BEHIND_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(queue_schedule(db, 3), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    assert_int_equal(scheduled(f), 3);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(queue_schedule(db, 4), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    assert_int_equal(scheduled(f), 4);
    tern_db_close(db);
    stop_between(&between);
}

static void a_queue_that_is_lost_was_not(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    const struct between between = start_between(f, CUT_BEFORE_COMMIT);
    struct tern_db *db = open_at(between.path);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(queue_schedule(db, 3), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_ERR_IO);
    assert_non_null(strstr(tern_db_error(db), "nothing of this was stored"));
    assert_int_equal(scheduled(f), 0);
    tern_db_close(db);
    stop_between(&between);
}

// What one client leaves behind in a round, in one transaction.
static void report(struct fixture *f, struct tern_db *db, uint32_t round)
{
    uint8_t body[200];
    const struct tern_db_update update = fixture_update(round, 1, body, sizeof body);
    struct tern_db_assignment row = {.round = round, .client = 1};
    const struct tern_db_meter meter = {
        .round = round, .client = 1, .purpose = TERN_PURPOSE_UPLOAD, .exchanges = 1};
    struct tern_db_client client;
    fixture_round(f, round);
    assert_int_equal(tern_db_client_get(db, 1, &client), TERN_OK);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_assignment_put(db, &row, NULL), TERN_OK);
    row.state = TERN_ASSIGNMENT_REPORTED;
    assert_int_equal(tern_db_assignment_put(db, &row, &(enum tern_db_assignment_state){0}),
                     TERN_OK);
    assert_int_equal(queue_schedule(db, round), TERN_OK);
    assert_int_equal(tern_db_update_put(db, &update), TERN_OK);
    assert_int_equal(queue_ledger(db, round), TERN_OK);
    assert_int_equal(tern_db_client_update(db, &client), TERN_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tern_db_meter_add(db, &meter), TERN_OK);
    }
    assert_int_equal(tern_db_commit(db), TERN_OK);
}

// The look at the clients before; the beginning; the next update's id, the last rounds that were counted and dropped, and who evaluates, which a
// service has in memory; that each change has changed a row, and the commit.
#define MOST_TURNS 7

static void a_transaction_takes_few_trips(void **state)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    const struct between between = start_between(f, CUT_NEVER);
    struct tern_db *db = open_at(between.path);
    report(f, db, 1); // statements are prepared
    const unsigned before = between.turns->count;
    report(f, db, 2);
    const unsigned turns = between.turns->count - before;
    assert_in_range(turns, 1, MOST_TURNS);
    tern_db_close(db);
    stop_between(&between);
}

#define MANY 1500 // several times of what is queued at once
#define SOME 40
#define BODY 400000 // together more than what sockets hold

static void as_much_is_queued_as_there_is(void **state)
{
    struct fixture *f = *state;
    static uint8_t body[BODY];
    struct tern_db_update update;
    fixture_client(f, 1);
    for (uint32_t round = 1; round <= SOME; round++) {
        fixture_round(f, round);
    }
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 1; i <= MANY; i++) {
        assert_ok(f, queue_schedule(f->db, i));
    }
    for (uint32_t round = 1; round <= SOME; round++) {
        update = fixture_update(round, 1, body, sizeof body);
        assert_ok(f, tern_db_update_put(f->db, &update));
        assert_ok(f, queue_ledger(f->db, round));
    }
    assert_int_equal(scheduled(f), MANY); // in its own transaction
    assert_int_equal(in_ledger(f), SOME);
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(scheduled(f), MANY);
    for (uint32_t round = 1; round <= SOME; round++) {
        assert_ok(f, tern_db_update_find(f->db, round, 1, &update));
        assert_int_equal(update.id, round);
        assert_int_equal(update.body_len, BODY);
    }
    assert_ok(f, tern_db_check(f->db)); // each body by its hash
}

static enum tern_result count_piece(void *ctx, const uint8_t *data, size_t len)
{
    size_t *bytes = ctx;
    (void)data;
    *bytes += len;
    return TERN_OK;
}

// What libpq does in no pipeline comes behind the queue.
static void a_value_in_pieces_follows_what_is_queued(void **state)
{
    struct fixture *f = *state;
    static uint8_t body[100000];
    struct tern_db_download download = {.size = sizeof body, .to_version = 1};
    size_t bytes = 0;
    fixture_client(f, 1);
    tern_sha256(body, sizeof body, download.sha256);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, queue_schedule(f->db, 5));
    assert_ok(f, tern_db_download_put(f->db, &download, body));
    assert_ok(f, queue_schedule(f->db, 5));
    assert_ok(f, tern_db_download_get(f->db, download.sha256, &download, NULL, 0));
    assert_ok(f, tern_db_download_stream(f->db, &download, count_piece, &bytes));
    assert_int_equal(bytes, sizeof body);
    assert_ok(f, queue_schedule(f->db, 6));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(scheduled(f), 6);
    assert_ok(f, tern_db_download_get(f->db, download.sha256, &download, NULL, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int run_queue_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_queued_write_that_fails_ends_its_transaction),
        TEST(a_queued_write_that_fails_is_found_by_the_commit),
        TEST(a_queued_write_outlives_a_refused_one),
        TEST(what_is_queued_is_rolled_back),
        TEST(a_change_of_nothing_stores_nothing),
        TEST(what_is_queued_is_lost_with_its_connection),
        TEST(a_queue_whose_reply_is_lost_was_stored),
        TEST(a_queue_that_is_lost_was_not),
        TEST(a_transaction_takes_few_trips),
        TEST(as_much_is_queued_as_there_is),
        TEST(a_value_in_pieces_follows_what_is_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
