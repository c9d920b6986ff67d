// How much of the rounds' updates is kept: those of the newest rounds, within a bound; of the others
// the record stays, and with it everything that was acknowledged.
#include "harness.h"

#include "merge/merge.h"
#include "merge/replay.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

// --- Checkpoints

// Updates of so few bytes that whole weights are not stored with each version.
static void begin_with_small_updates(void)
{
    assert_int_equal(tern_codec_parse("3lc:s=1", &harness.config.federation.codec_up, NULL),
                     TERN_OK);
    harness_start(&harness);
    enroll(&harness, false);
    enroll(&harness, false);
}

// Loads the newest version as a start does.
static enum tern_result load_newest(struct tern_merge *merge)
{
    struct tern_db_federation about;
    assert_int_equal(tern_db_federation(harness.db, &about), TERN_OK);
    assert_int_equal(tern_merge_init(merge, &about), TERN_OK);
    return tern_merge_load(merge, harness.db);
}

static void expect_newest(uint32_t version)
{
    static struct tern_merge merge;
    struct tern_db_version newest;
    assert_int_equal(load_newest(&merge), TERN_OK);
    assert_int_equal(tern_db_version_last(harness.db, &newest), TERN_OK);
    assert_int_equal(merge.version, version);
    assert_int_equal(newest.version, version);
    assert_memory_equal(merge.model_sha256, newest.model_sha256, TERN_SHA256_SIZE);
    assert_memory_equal(merge.replica_id, newest.replica, TERN_SHA256_SIZE);
    tern_merge_free(&merge);
}

static uint32_t checkpoint(void)
{
    uint32_t version = 0;
    assert_int_equal(tern_db_weights_version(harness.db, &version), TERN_OK);
    return version;
}

static void test_the_newest_version_is_made_from_a_checkpoint(void **state)
{
    (void)state;
    struct tern_replay_report report;
    char why[256];
    begin_with_small_updates();
    bool behind = false;
    for (uint32_t version = 1; version <= 5; version++) {
        do_rounds(1);
        open_store();
        assert_true(checkpoint() <= version);
        behind = behind || checkpoint() < version;
        expect_newest(version);
        harness_start(&harness);
    }
    assert_true(behind);
    open_store();
    assert_int_equal(tern_service_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.rounds, 5);
}

// Whatever is to be pruned: what the newest version is made of stays.
static void test_a_prune_leaves_what_follows_the_checkpoint(void **state)
{
    (void)state;
    struct tern_db_counts counts;
    bool more = true;
    begin_with_small_updates();
    do_rounds(1);
    open_store();
    assert_int_equal(checkpoint(), 0);
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_prune(harness.db, 1), TERN_OK);
    assert_int_equal(tern_db_prune_some(harness.db, UINT64_MAX, &more), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    assert_int_equal(counts.rounds_pruned, 0);
    expect_newest(1);
}

// Underneath the store.
static void drop_a_body(void)
{
    char command[512];
    snprintf(command, sizeof command,
             "/usr/bin/python3 -c \"import sqlite3;c=sqlite3.connect('%s');"
             "c.execute('delete from update_bodies where id = 2');c.commit()\"",
             harness.path);
    assert_int_equal(system(command), 0);
}

static void test_an_update_that_the_newest_version_needs_is_missed(void **state)
{
    (void)state;
    static struct tern_merge merge;
    begin_with_small_updates();
    do_rounds(1);
    open_store();
    assert_int_equal(checkpoint(), 0);
    drop_a_body();
    assert_int_equal(load_newest(&merge), TERN_ERR_CORRUPT);
    tern_merge_free(&merge);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bodies_of_the_newest_rounds_are_kept),
        TEST(test_all_are_kept_without_a_bound),
        TEST(test_an_update_whose_body_is_gone_is_a_duplicate),
        TEST(test_what_was_begun_is_ended_after_a_restart),
        TEST(test_the_newest_version_is_made_from_a_checkpoint),
        TEST(test_a_prune_leaves_what_follows_the_checkpoint),
        TEST(test_an_update_that_the_newest_version_needs_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
