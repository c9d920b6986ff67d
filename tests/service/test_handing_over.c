// What a follower has handed over to the leader, when its connection to PostgreSQL is lost and made again. A crash of the
// server undoes the newest rows, since nobody waits for the disk for them. The leader is this test.
#include "harness.h"
#include "nodes/sharing.h"
#include "store/nodes.h"
#include "tests/postgres/place.h"
#include "tests/store/run_sql.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#include "one_harness.h"

#define NODE 7

static struct tern_db *leader;

static int setup_follower(void **state)
{
    (void)state;
    harness_make(&harness);
    harness_start(&harness);
    enroll(&harness, false);
    harness.config.sharing = &tern_nodes_sharing;
    harness.config.node = NODE;
    harness.config.follows = true;
    harness_restart(&harness);
    leader = harness_look(&harness);
    return 0;
}

static int teardown_follower(void **state)
{
    tern_db_close(leader);
    return teardown(state);
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

// The node that has handed something over; 0 = none.
static uint64_t handing_over(void)
{
    uint64_t node = 0;
    assert_int_equal(tern_db_relaying(leader, 0, &node), TERN_OK);
    return node;
}

// A check-in that the leader holds, and its row is there.
static struct tern_http_exchange *begin_checkin(void)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    const size_t len = encode_checkin(NULL, 30000, body);
    struct tern_http_exchange *exchange =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], body, len);
    while (handing_over() != NODE) {
        pause_briefly();
    }
    return exchange;
}

// The connection by which the follower has its answers.
static void cut(void)
{
    run_sql(harness.path,
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
            " AND CAST(classid AS BIGINT) * 4294967296 + CAST(objid AS BIGINT)"
            " = (7 + 16) * 8589934592 + CAST(CAST('schema_version' AS regclass) AS BIGINT)");
}

// Waits for the answer, for less of the follower's time than it would wait for the leader.
static int status_of(struct tern_http_exchange *exchange)
{
    for (int turn = 0; turn < 20; turn++) {
        test_advance(600);
        for (int ms = 0; ms < 1000 && !call_is_done(exchange); ms++) {
            pause_briefly();
        }
    }
    assert_true(call_is_done(exchange));
    struct answer answer = call_end(exchange);
    const int status = answer.status;
    answer_free(&answer);
    return status;
}

static void test_a_row_that_is_lost_is_answered(void **state)
{
    (void)state;
    struct tern_http_exchange *exchange = begin_checkin();
    run_sql(harness.path, "DELETE FROM relayed");
    cut();
    assert_int_equal(status_of(exchange), 503);
}

// Its client comes again, maybe by another aggregator.
static void test_a_row_that_is_left_is_dropped(void **state)
{
    (void)state;
    struct tern_http_exchange *exchange = begin_checkin();
    cut();
    assert_int_equal(status_of(exchange), 503);
    assert_int_equal(handing_over(), 0);
}

static void test_an_answer_that_is_there_is_sent(void **state)
{
    (void)state;
    struct tern_http_exchange *exchange = begin_checkin();
    struct tern_db_relayed row;
    struct tern_db_rows *rows = tern_db_relayed(leader, NODE, 0, 1);
    assert_true(tern_db_next(rows, &row));
    struct tern_db_answer answer = {.node = NODE, .number = row.number, .status = 409};
    assert_int_equal(tern_db_end(rows), TERN_OK);
    assert_int_equal(tern_db_begin_apart(leader, true), TERN_OK);
    assert_int_equal(tern_db_answer_put(leader, &answer), TERN_OK); // and nobody is notified
    assert_int_equal(tern_db_commit(leader), TERN_OK);
    cut();
    assert_int_equal(status_of(exchange), 409);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_follower, teardown_follower)
    const struct CMUnitTest tests[] = {
        TEST(test_a_row_that_is_lost_is_answered),
        TEST(test_a_row_that_is_left_is_dropped),
        TEST(test_an_answer_that_is_there_is_sent),
    };
    return test_store_is_postgres() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
