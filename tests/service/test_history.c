// How much of the rounds' updates is kept: those of the newest rounds, within a bound; of the others
// the record stays, and with it everything that was acknowledged.
#include "harness.h"

#include "merge/merge.h"
#include "merge/replay.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/cases.h"

static void open_store(void)
{
    char why[256];
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
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
    harness_start_with(&harness, 2);
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

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_bodies_of_the_newest_rounds_are_kept)
{
    harness.config.federation.limits.history = 2 * bytes_of_round() + 1;
    harness_start(&harness);
    do_rounds(5);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.rounds_pruned, 3);
    assert_int_equal(counts.update_bodies, 2 * 2);
    assert_int_equal(counts.updates, 5 * 2);
    assert_int_equal(counts.updates_applied, 5 * 2);
}

TEST(test_all_are_kept_without_a_bound)
{
    bytes_of_round();
    harness_start(&harness);
    do_rounds(3);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.rounds_pruned, 0);
    assert_int_equal(counts.update_bodies, 3 * 2);
}

// Client 1's update for `round` comes again.
static void send_again(uint32_t round, const uint8_t *body, size_t len, int status)
{
    tern_UpdateReply reply;
    struct answer answer = put_update(&harness, 1, round, 1, body, len);
    assert_int_equal(answer.status, status);
    if (status == 200) {
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
        assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    }
    answer_free(&answer);
}

// The same bytes, sent again as after a lost reply, were counted, and those of others were not. Once
// the client has sent a later update, it has that reply, and no honest one sends them again.
TEST(test_the_last_update_is_a_duplicate_without_its_body)
{
    uint8_t *body;
    bytes_of_round();
    harness.config.federation.limits.history = 1;
    harness_start(&harness);
    do_rounds(2);
    tern_CheckinReply next = checkin(&harness, 1, NULL);
    const size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    do_rounds(1);
    const struct tern_db_counts counts = counts_of_store();
    assert_int_equal(counts.update_bodies, 0);
    harness_start(&harness);
    send_again(3, body, len, 200);
    do_rounds(20);
    send_again(3, body, len, 410); // late
    assert_int_equal(counts_of_store().updates, 23 * 2);
    free(body);
}

// Returns the number of assignments stored for rounds 1 to `last`.
static uint32_t assignment_rows(uint32_t last)
{
    struct tern_db_assignment row;
    uint32_t count = 0;
    for (uint32_t round = 1; round <= last; round++) {
        struct tern_db_rows *rows = tern_db_assignments(harness.db, round);
        while (tern_db_next(rows, &row)) {
            count++;
        }
        assert_int_equal(tern_db_end(rows), TERN_OK);
    }
    return count;
}

// However long a federation goes on, what its clients did round by round takes no more room: the rows of the newest
// 16 rounds, and of those that are being dropped.
TEST(test_rows_do_not_grow_with_history)
{
    bytes_of_round();
    harness.config.federation.limits.history = 1;
    for (uint32_t i = 1; i <= 2; i++) {
        harness_start(&harness);
        do_rounds(20);
        const struct tern_db_counts counts = counts_of_store();
        assert_int_equal(counts.updates, i * 20 * 2);
        assert_int_equal(counts.participants, i * 20 * 2);
        const uint32_t rows = assignment_rows(i * 20);
        assert_true(rows >= 15 * 2); // of updates that may come late; a round is open
        assert_true(rows <= 18 * 2);
    }
}

// An update that is late by 20 versions still counts: its task's row stays, after a restart, too.
TEST(test_rows_of_whoever_may_come_late_stay)
{
    float *parameters = harness.config.federation.strategy_parameters;
    harness.config.federation.strategy = &tern_strategy_fedbuff;
    harness.config.federation.server_learning_rate = tern_strategy_fedbuff.server_learning_rate;
    parameters[TERN_STRATEGY_STALENESS_MAX] = 20.0F;
    bytes_of_round();
    harness.config.federation.limits.history = 1;
    for (uint32_t rounds = 1; rounds <= 40; rounds++) {
        harness_start(&harness);
        do_rounds(1);
        open_store();
        const uint32_t rows = assignment_rows(rounds);
        const uint32_t kept = rounds < 20 ? rounds : 20; // and those of the open round
        assert_true(rows >= kept * 2);
        assert_true(rows <= (kept + 3) * 2);
    }
}

// Ended between the mark and the last step, as by a power cut.
TEST(test_what_was_begun_is_ended_after_a_restart)
{
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
    harness_start_with(&harness, 2);
}

// Loads the newest version as a start does.
static enum tern_result load_newest(struct tern_merge *merge)
{
    struct tern_db_federation about;
    assert_int_equal(tern_db_federation(harness.db, &about), TERN_OK);
    assert_int_equal(tern_merge_init(merge, &about, NULL), TERN_OK);
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
    assert_int_equal(tern_db_checkpoint(harness.db, &version), TERN_OK);
    return version;
}

TEST(test_the_newest_version_is_made_from_a_checkpoint)
{
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
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.rounds, 5);
}

// Its updates have as many bytes in each round as a checkpoint, but are merged again in no time.
TEST(test_few_bytes_of_updates_need_no_checkpoint)
{
    harness_free(&harness);
    harness_make_model(&harness, "softmax:1024-10");
    harness_start_with(&harness, 2);
    do_rounds(3);
    open_store();
    assert_int_equal(checkpoint(), 0);
    expect_newest(3);
}

// The process may end after any piece.
TEST(test_a_checkpoint_in_pieces_counts_once_it_is_whole)
{
    static struct tern_merge merge;
    char why[256];
    begin_with_small_updates();
    do_rounds(1);
    open_store();
    assert_int_equal(checkpoint(), 0);
    uint32_t pieces = 0;
    for (bool whole = false; !whole; pieces++) {
        assert_int_equal(load_newest(&merge), TERN_OK);
        assert_int_equal(tern_db_begin(harness.db), TERN_OK);
        for (uint32_t i = 0; i <= pieces; i++) {
            assert_int_equal(merge.checkpoint, 0);
            assert_int_equal(tern_merge_checkpoint(&merge, harness.db, 1), TERN_OK);
        }
        assert_int_equal(tern_db_commit(harness.db), TERN_OK);
        whole = merge.checkpoint == 1;
        tern_merge_free(&merge);
        tern_db_close(harness.db);
        assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
        assert_int_equal(checkpoint(), whole ? 1 : 0);
        expect_newest(1);
    }
    assert_true(pieces >= 2);
    harness_start(&harness);
    do_rounds(1);
    open_store();
    expect_newest(2);
}

// Whatever is to be pruned: what the newest version is made of stays.
TEST(test_a_prune_leaves_what_follows_the_checkpoint)
{
    struct tern_db_counts counts;
    bool more = true;
    begin_with_small_updates();
    do_rounds(1);
    open_store();
    assert_int_equal(checkpoint(), 0);
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_prune(harness.db, 1), TERN_OK);
    assert_int_equal(tern_db_prune_some(harness.db, UINT64_MAX, 0, &more), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    assert_int_equal(counts.rounds_pruned, 0);
    expect_newest(1);
}

TEST(test_an_update_that_the_newest_version_needs_is_missed)
{
    static struct tern_merge merge;
    begin_with_small_updates();
    do_rounds(1);
    open_store();
    assert_int_equal(checkpoint(), 0);
    run_sql(harness.path, "delete from update_bodies where id = 2");
    assert_int_equal(load_newest(&merge), TERN_ERR_CORRUPT);
    tern_merge_free(&merge);
}
