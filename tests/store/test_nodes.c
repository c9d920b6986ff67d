// What aggregators on one database hand to each other; with a file there is nobody else.
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

// --- Bytes that were counted

static void a_row_of_the_meter_comes_out_as_it_went_in(void **state)
{
    (void)state;
    const struct tern_db_meter in = {.client = 1234567890123,
                                     .round = UINT32_MAX,
                                     .purpose = TERN_PURPOSE_UPLOAD,
                                     .up = {1, 2, 3, 1ULL << 60},
                                     .down = {5, 6, 7, 8},
                                     .exchanges = 9};
    struct tern_db_meter out = {0};
    uint8_t bytes[TERN_DB_METER_PACKED];
    tern_db_meter_pack(&in, bytes);
    assert_int_equal(tern_db_meter_unpack(bytes, &out), TERN_OK);
    assert_true(out.client == in.client && out.round == in.round && out.purpose == in.purpose);
    assert_memory_equal(&out.up, &in.up, sizeof in.up);
    assert_memory_equal(&out.down, &in.down, sizeof in.down);
    assert_int_equal(out.exchanges, in.exchanges);
    bytes[8] = TERN_PURPOSE_COUNT;
    assert_int_equal(tern_db_meter_unpack(bytes, &out), TERN_ERR_CORRUPT);
    tern_db_meter_pack(&in, bytes);
    bytes[13] = 1; // a round of more than 32 bits
    assert_int_equal(tern_db_meter_unpack(bytes, &out), TERN_ERR_CORRUPT);
}

// --- A file

static void hear_nothing(void *ctx, const char *message)
{
    (void)ctx;
    fail_msg("heard \"%s\"", message);
}

static void nobody_else_serves_a_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(tern_db_begin_apart(f->db, false), TERN_ERR_STATE);
    assert_int_equal(tern_db_subscribe(f->db, NODE), TERN_ERR_STATE);
    assert_int_equal(tern_db_set_follower(f->db, true), TERN_ERR_STATE);
    assert_int_equal(tern_db_join_node(f->db, NODE), TERN_ERR_STATE);
    bool ended = true;
    assert_int_equal(tern_db_end_leader(f->db, NODE, 0, &ended), TERN_ERR_STATE);
    assert_false(ended);
    assert_int_equal(tern_db_wait_notices(f->db, -1, 0, hear_nothing, NULL), TERN_ERR_STATE);
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_notify(f->db, "x"), TERN_ERR_STATE);
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

static void relay(const struct fixture *f, struct tern_db *db, uint64_t node, uint64_t number)
{
    struct tern_db_relayed row = {.node = node,
                                  .number = number,
                                  .kind = 3,
                                  .client = 5,
                                  .path = "/v1/updates/1/2",
                                  .checked = true,
                                  .body = {"body\0", 5}};
    assert_ok(f, tern_db_begin_apart(db, false));
    assert_ok(f, tern_db_relay(db, &row));
    assert_ok(f, tern_db_commit(db));
}

static void put_answer(const struct fixture *f, struct tern_db *db, uint64_t node, uint64_t number)
{
    struct tern_db_answer row = {
        .node = node, .number = number, .status = 200, .round = 4, .body = {"yes", 3}};
    assert_ok(f, tern_db_answer_put(db, &row));
}

static uint32_t count_answers(const struct fixture *f, struct tern_db *db, uint64_t node)
{
    struct tern_db_answer row;
    uint32_t count = 0;
    struct tern_db_rows *rows = tern_db_answers_take(db, node);
    while (tern_db_next(rows, &row)) {
        assert_int_equal(row.node, node);
        assert_int_equal(row.status, 200);
        assert_int_equal(row.round, 4);
        assert_int_equal(row.body.len, 3);
        assert_memory_equal(row.body.data, "yes", 3);
        count++;
    }
    assert_ok(f, tern_db_end(rows));
    return count;
}

static void requests_come_in_order_and_answers_once(void **state)
{
    struct fixture *f = *state;
    struct tern_db *other = open_again(f);
    struct tern_db_relayed row;
    uint64_t node = 0;
    bool dropped = false;
    relay(f, other, NODE, 3);
    relay(f, other, NODE, 12);
    relay(f, other, NODE + 4, 1);
    assert_ok(f, tern_db_relaying(f->db, 0, &node));
    assert_int_equal(node, NODE);
    assert_ok(f, tern_db_relaying(f->db, node, &node));
    assert_int_equal(node, NODE + 4);
    assert_ok(f, tern_db_relaying(f->db, node, &node));
    assert_int_equal(node, 0);
    struct tern_db_rows *rows = tern_db_relayed(f->db, NODE, 0, 10);
    assert_true(tern_db_next(rows, &row));
    assert_int_equal(row.number, 3);
    assert_true(row.checked);
    assert_int_equal(row.body.len, 5);
    assert_true(tern_db_next(rows, &row));
    assert_int_equal(row.number, 12);
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
    rows = tern_db_relayed(f->db, NODE, 3, 10);
    assert_true(tern_db_next(rows, &row));
    assert_int_equal(row.number, 12);
    assert_ok(f, tern_db_end(rows));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_relayed_drop(f->db, NODE, 3, &dropped));
    assert_true(dropped);
    assert_ok(f, tern_db_relayed_drop(f->db, NODE, 4, &dropped));
    assert_false(dropped);
    put_answer(f, f->db, NODE, 3);
    assert_int_equal(count_answers(f, other, NODE), 0);
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(count_answers(f, other, NODE + 4), 0);
    assert_int_equal(count_answers(f, other, NODE), 1);
    assert_int_equal(count_answers(f, other, NODE), 0);
    tern_db_close(other);
}

// While the leader has a transaction open, whoever follows does not wait for it, and is no reason to load all anew.
static void requests_stand_apart_from_what_is_decided(void **state)
{
    struct fixture *f = *state;
    struct tern_db *other = open_again(f);
    (void)tern_db_changed_by_others(f->db);
    fixture_client(f, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_touch(f->db));
    relay(f, other, NODE, 1);
    assert_ok(f, tern_db_commit(f->db));
    assert_false(tern_db_changed_by_others(f->db));
    tern_db_close(other);
}

static enum tern_result try_relay(struct tern_db *db, bool durable)
{
    struct tern_db_relayed row = {.node = NODE, .number = 1, .path = "/"};
    const enum tern_result begun = tern_db_begin_apart(db, durable);
    return begun == TERN_OK ? tern_db_conclude(db, tern_db_relay(db, &row)) : begun;
}

// What is handed over waits for the disk where that is asked for; what is decided always.
static void the_disk_is_waited_for_where_it_must_be(void **state)
{
    struct fixture *f = *state;
    const char *waits = "WHEN (current_setting('synchronous_commit') <> 'off')";
    struct tern_db *other = open_again(f);
    assert_ok(f, tern_db_subscribe(other, NODE));
    refuse_writes(f->path, "BEFORE INSERT ON relayed", waits);
    assert_int_equal(try_relay(f->db, true), TERN_ERR_IO);
    assert_ok(f, try_relay(f->db, false));
    take_writes(f->path);
    refuse_writes(f->path, "BEFORE INSERT ON answers",
                  "WHEN (current_setting('synchronous_commit') = 'off')");
    assert_ok(f, tern_db_begin(f->db));
    put_answer(f, f->db, NODE, 1);
    assert_ok(f, tern_db_commit(f->db));
    take_writes(f->path);
    refuse_writes(f->path, "BEFORE DELETE ON answers", waits);
    assert_int_equal(count_answers(f, other, NODE), 1);
    tern_db_close(other);
}

struct heard {
    char text[256];
};

static void hear(void *ctx, const char *message)
{
    struct heard *heard = ctx;
    const size_t len = strlen(heard->text);
    snprintf(heard->text + len, sizeof heard->text - len, "[%s]", message);
}

static void what_is_told_is_heard_once_it_is_committed(void **state)
{
    struct fixture *f = *state;
    struct tern_db *other = open_again(f);
    struct heard heard = {""};
    assert_ok(f, tern_db_subscribe(other, NODE));
    assert_ok(f, tern_db_wait_notices(other, -1, 0, hear, &heard));
    assert_string_equal(heard.text, "[]"); // it may have missed something before
    heard.text[0] = '\0';
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_notify(f->db, "one"));
    assert_ok(f, tern_db_notify(f->db, "two"));
    assert_ok(f, tern_db_wait_notices(other, -1, 50, hear, &heard));
    assert_string_equal(heard.text, "");
    assert_ok(f, tern_db_commit(f->db));
    while (strcmp(heard.text, "[one][two]") != 0) {
        const size_t len = strlen(heard.text);
        assert_ok(f, tern_db_wait_notices(other, -1, 10000, hear, &heard));
        assert_true(strlen(heard.text) > len);
    }
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_ok(f, tern_db_wait_notices(other, ends[0], 60000, hear, &heard)); // at once
    assert_string_equal(heard.text, "[one][two]");
    close(ends[0]);
    close(ends[1]);
    tern_db_close(other);
}

static void answers_of_nodes_that_are_gone_are_swept(void **state)
{
    struct fixture *f = *state;
    struct tern_db *here = open_again(f);
    assert_ok(f, tern_db_subscribe(here, NODE));
    assert_ok(f, tern_db_begin(f->db));
    put_answer(f, f->db, NODE, 1);
    put_answer(f, f->db, NODE + 1, 1);
    assert_ok(f, tern_db_answers_sweep(f->db));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(count_answers(f, here, NODE + 1), 0);
    assert_int_equal(count_answers(f, here, NODE), 1);
    tern_db_close(here);
}

static void who_follows_is_listed_so(void **state)
{
    struct fixture *f = *state;
    struct tern_db *waits = open_again(f);
    struct tern_db_node nodes[4];
    size_t count = 0;
    assert_ok(f, tern_db_set_follower(waits, true));
    assert_ok(f, tern_db_hold(waits));
    assert_ok(f, tern_db_nodes(f->db, nodes, 4, &count));
    assert_int_equal(count, 1);
    assert_true(nodes[0].leads && nodes[0].follows);
    assert_ok(f, tern_db_set_follower(waits, false));
    assert_ok(f, tern_db_nodes(f->db, nodes, 4, &count));
    assert_true(nodes[0].leads && !nodes[0].follows);
    tern_db_close(waits);
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
    assert_ok(f, tern_db_begin_apart(db, false));
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
        TEST(requests_come_in_order_and_answers_once),
        TEST(requests_stand_apart_from_what_is_decided),
        TEST(the_disk_is_waited_for_where_it_must_be),
        TEST(what_is_told_is_heard_once_it_is_committed),
        TEST(answers_of_nodes_that_are_gone_are_swept),
        TEST(who_follows_is_listed_so),
        TEST(who_says_nothing_is_silent),
        TEST(who_waits_for_the_database_is_not_silent),
        TEST(who_leads_and_is_silent_may_be_ended),
        TEST(settings_are_there_while_their_node_is),
    };
    const struct CMUnitTest of_both[] = {
        cmocka_unit_test(a_row_of_the_meter_comes_out_as_it_went_in),
    };
    const int failed = cmocka_run_group_tests(of_both, NULL, NULL);
    return failed + (test_store_is_postgres() ? cmocka_run_group_tests(of_a_server, NULL, NULL)
                                              : cmocka_run_group_tests(of_a_file, NULL, NULL));
}
