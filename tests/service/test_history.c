// How much of the rounds' updates is kept: those of the newest rounds, within a bound; of the others
// the record stays, and with it everything that was acknowledged.
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#include "one_harness.h"

static void open_store(void)
{
    char why[256];
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, &harness.db, why), TERN_OK);
}

static struct tern_db_counts counts_of_store(void)
{
    struct tern_db_counts counts;
    open_store();
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    return counts;
}

// The bytes of one round's updates, which are all alike.
static uint64_t bytes_of_round(void)
{
    uint8_t *body;
    harness_start(&harness);
    enroll(&harness, false);
    enroll(&harness, false);
    tern_CheckinReply next = checkin(&harness, 1, NULL);
    const size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    free(body);
    open_store();
    return 2 * (uint64_t)len;
}

static void do_rounds(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        do_round(&harness, 1, NULL, 1.0F);
        do_round(&harness, 2, NULL, 3.0F);
    }
}

static void test_bodies_of_the_newest_rounds_are_kept(void **state)
{
    (void)state;
    harness.config.federation.limits.history = 2 * bytes_of_round() + 1;
    harness_start(&harness);
    do_rounds(5);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.rounds_pruned, 3);
    assert_int_equal(counts.update_bodies, 2 * 2);
    assert_int_equal(counts.updates, 5 * 2);
    assert_int_equal(counts.updates_applied, 5 * 2);
}

static void test_all_are_kept_without_a_bound(void **state)
{
    (void)state;
    bytes_of_round();
    harness_start(&harness);
    do_rounds(3);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.rounds_pruned, 0);
    assert_int_equal(counts.update_bodies, 3 * 2);
}

// The same bytes, sent again as after a lost reply, were counted, and those of others were not.
static void test_an_update_whose_body_is_gone_is_a_duplicate(void **state)
{
    (void)state;
    uint8_t *body;
    tern_UpdateReply reply;
    bytes_of_round();
    harness.config.federation.limits.history = 1;
    harness_start(&harness);
    tern_CheckinReply next = checkin(&harness, 1, NULL);
    const size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    do_rounds(3);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.update_bodies, 0);
    harness_start(&harness);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    answer_free(&answer);
    free(body);
}

// Ended between the mark and the last step, as by a power cut.
static void test_what_was_begun_is_ended_after_a_restart(void **state)
{
    (void)state;
    bytes_of_round();
    harness_start(&harness);
    do_rounds(3);
    open_store();
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_prune(harness.db, 2), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    harness_start(&harness);
    do_rounds(1);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.rounds_pruned, 2);
    assert_int_equal(counts.update_bodies, 2 * 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bodies_of_the_newest_rounds_are_kept),
        TEST(test_all_are_kept_without_a_bound),
        TEST(test_an_update_whose_body_is_gone_is_a_duplicate),
        TEST(test_what_was_begun_is_ended_after_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
