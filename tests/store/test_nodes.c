// Which aggregator on a database leads, and the settings of all; a file has only one.
#include "store/nodes.h"

#include "store/fixture.h"
#include "store/run_sql.h"
#include "tests/postgres/place.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NODE 7u

// --- A file

static void nobody_else_serves_a_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(tern_db_join_node(f->db, NODE), TERN_ERR_STATE);
    bool ended = true;
    assert_int_equal(tern_db_end_leader(f->db, NODE, 0, &ended), TERN_ERR_STATE);
    assert_false(ended);
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_node_settings_put(f->db, NODE, "x"), TERN_ERR_STATE);
    assert_ok(f, tern_db_commit(f->db));
}

// --- A server

static struct tern_db *open_again(const struct fixture *f)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    if (tern_db_open(f->path, TERN_DB_SECOND, &db, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    return db;
}

// --- Who leads, and is silent

#define SILENT_MS 300u

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void be_silent(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SILENT_MS * 1000000L}, NULL);
}

static struct tern_db_node leader_of(const struct fixture *f)
{
    struct tern_db_node node = {.leads = false};
    size_t count = 0;
    assert_ok(f, tern_db_nodes(f->db, &node, 1, &count));
    assert_int_equal(count, 1);
    assert_true(node.leads);
    return node;
}

// One of its connections that asks for something is a sign of life; the one by which it leads tells whether it works.
static void who_says_nothing_is_silent(void **state)
{
    struct fixture *f = *state;
    struct tern_db *leads = open_again(f);
    struct tern_db *lives = open_again(f);
    assert_ok(f, tern_db_hold(leads));
    be_silent();
    assert_int_equal(leader_of(f).number, 0); // a verb: nobody's to judge
    assert_int_equal(leader_of(f).silent_ms, 0);
    uint64_t before_ms = now_ms();
    assert_ok(f, tern_db_join_node(leads, NODE));
    assert_true(leader_of(f).silent_ms <= now_ms() - before_ms + 1);
    be_silent();
    assert_int_equal(leader_of(f).number, NODE);
    assert_true(leader_of(f).silent_ms >= SILENT_MS - 1);
    assert_true(leader_of(f).idle_ms >= SILENT_MS - 1);
    before_ms = now_ms();
    assert_ok(f, tern_db_join_node(lives, NODE));
    const struct tern_db_node leader = leader_of(f);
    assert_true(leader.silent_ms <= now_ms() - before_ms + 1);
    assert_true(leader.idle_ms >= leader.silent_ms + SILENT_MS - 1);
    tern_db_close(lives);
    tern_db_close(leads);
}

static void *wait_to_write(void *ctx)
{
    assert_int_equal(tern_db_begin(ctx), TERN_ERR_BUSY);
    return NULL;
}

static void who_waits_for_the_database_is_not_silent(void **state)
{
    struct fixture *f = *state;
    struct tern_db *leads = open_again(f);
    struct tern_db *writes = open_again(f);
    pthread_t thread;
    assert_ok(f, tern_db_join_node(leads, NODE));
    assert_ok(f, tern_db_hold(leads));
    assert_ok(f, tern_db_begin(writes));
    assert_int_equal(pthread_create(&thread, NULL, wait_to_write, leads), 0);
    be_silent();
    while (leader_of(f).silent_ms != 0) { // it has begun
        be_silent();
    }
    be_silent();
    assert_int_equal(leader_of(f).silent_ms, 0);
    pthread_join(thread, NULL);
    be_silent();
    assert_true(leader_of(f).silent_ms >= SILENT_MS - 1);
    tern_db_close(writes);
    tern_db_close(leads);
}

static void add_code(const struct fixture *f, struct tern_db *db)
{
    struct tern_db_code code = {.uses_left = 1};
    assert_ok(f, tern_db_begin(db));
    assert_ok(f, tern_db_code_add(db, &code));
}

// Within a transaction: what it had written is undone, and it can commit nothing more.
static void who_leads_and_is_silent_may_be_ended(void **state)
{
    struct fixture *f = *state;
    struct tern_db *leads = open_again(f);
    struct tern_db *next = open_again(f);
    struct tern_db_counts counts;
    bool ended = true;
    assert_ok(f, tern_db_join_node(leads, NODE));
    assert_ok(f, tern_db_hold(leads));
    add_code(f, leads);
    be_silent();
    assert_ok(f, tern_db_end_leader(f->db, NODE + 1, 0, &ended));
    assert_false(ended); // another one leads
    assert_ok(f, tern_db_end_leader(f->db, NODE, 60000, &ended));
    assert_false(ended); // it was heard of since
    assert_ok(f, tern_db_end_leader(f->db, NODE, SILENT_MS / 2, &ended));
    assert_true(ended);
    assert_ok(f, tern_db_join_node(next, NODE + 1));
    assert_ok(f, tern_db_hold(next));
    assert_int_equal(tern_db_commit(leads), TERN_ERR_IO);
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.code_uses_left, 0);
    assert_int_equal(tern_db_begin(leads), TERN_ERR_STATE);
    assert_true(tern_db_is_displaced(leads));
    tern_db_close(next);
    tern_db_close(leads);
}

static void expect_settings(const struct fixture *f, uint32_t node, const char *expected)
{
    char *text = NULL;
    const enum tern_result result = tern_db_node_settings_get(f->db, node, &text);
    if (expected == NULL) {
        assert_int_equal(result, TERN_ERR_NOT_FOUND);
        assert_null(text);
    } else {
        assert_ok(f, result);
        assert_string_equal(text, expected);
    }
    free(text);
}

static void put_settings(const struct fixture *f, struct tern_db *db, uint32_t node,
                         const char *text)
{
    assert_ok(f, tern_db_begin(db));
    assert_ok(f, tern_db_node_settings_put(db, node, text));
    assert_ok(f, tern_db_commit(db));
}

static void settings_are_there_while_their_node_is(void **state)
{
    struct fixture *f = *state;
    struct tern_db *one = open_again(f);
    struct tern_db *two = open_again(f);
    assert_ok(f, tern_db_join_node(one, NODE));
    assert_ok(f, tern_db_join_node(two, NODE + 1));
    put_settings(f, one, NODE, "round.cohort=3\n");
    put_settings(f, two, NODE + 1, "");
    put_settings(f, one, NODE, "round.cohort=4\n");
    expect_settings(f, NODE, "round.cohort=4\n");
    expect_settings(f, NODE + 1, "");
    expect_settings(f, NODE + 2, NULL);
    tern_db_close(one);
    put_settings(f, two, NODE + 1, "x=1\n");
    expect_settings(f, NODE, NULL);
    expect_settings(f, NODE + 1, "x=1\n");
    tern_db_close(two);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest of_a_file[] = {TEST(nobody_else_serves_a_file)};
    const struct CMUnitTest of_a_server[] = {
        TEST(who_says_nothing_is_silent),
        TEST(who_waits_for_the_database_is_not_silent),
        TEST(who_leads_and_is_silent_may_be_ended),
        TEST(settings_are_there_while_their_node_is),
    };
    return test_store_is_postgres() ? cmocka_run_group_tests(of_a_server, NULL, NULL)
                                    : cmocka_run_group_tests(of_a_file, NULL, NULL);
}
