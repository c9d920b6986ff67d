// Learning rates that follow the training loss: from what is stored, so that a restart and a batch that was
// rolled back change nothing.
#include "harness.h"

#include "merge/replay.h"
#include <stdio.h>
#include <string.h>

#include "scheduled.h"
#include "store/run_sql.h"
#include "tests/cases.h"

static void start(void)
{
    harness.config.federation.train.rate = (struct tern_rate_policy){.schedule = TERN_RATE_PLATEAU,
                                                                     .first = 0.5F,
                                                                     .last = 0.1F,
                                                                     .decay = 0.5F,
                                                                     .decay_rounds = 2};
    harness.config.federation.round.cohort = 1;
    harness.config.federation.round.quorum = 1;
    harness.config.federation.min_clients = 1;
    harness_start(&harness);
    enroll(&harness, false);
}

// One round of client 1 with that loss; its learning rate.
static float learn(float loss)
{
    const tern_Task task = task_of(1);
    assert_int_equal(report(1, &task, &(struct report){.value = 0.01F, .loss = loss}), 200);
    return task.learning_rate;
}

static struct tern_db_round stored(uint32_t round)
{
    struct tern_db_round row;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_round_get(db, round, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_plateau_lowers_it)
{
    const float losses[] = {2.0F, 1.0F, 1.1F, 1.0F, 0.9F, 1.0F, 0.9F, 0.95F, 0.9F, 5.0F, 5.0F};
    const float rates[] = {0.5F, 0.5F, 0.5F, 0.5F, 0.25F, 0.25F, 0.25F, 0.125F, 0.125F, 0.1F, 0.1F};
    start();
    for (uint32_t i = 0; i < 11; i++) {
        assert_true(learn(losses[i]) == rates[i]);
        assert_true(stored(i + 1).learning_rate == rates[i]);
    }
    assert_int_equal(stored(4).decays, 0);
    assert_int_equal(stored(5).decays, 1);
    assert_int_equal(stored(8).decays, 2);
    assert_int_equal(stored(10).decays, 3);
}

// The same losses, and a restart after every round.
TEST(test_it_holds_over_restarts)
{
    const float losses[] = {2.0F, 1.0F, 1.1F, 1.0F, 0.9F, 1.0F, 0.9F, 0.95F};
    const float rates[] = {0.5F, 0.5F, 0.5F, 0.5F, 0.25F, 0.25F, 0.25F, 0.125F};
    start();
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(learn(losses[i]) == rates[i]);
        harness_restart(&harness);
    }
    // What an operator sets now decides what comes, and nothing of what was.
    harness.config.federation.train.rate.decay_rounds = 4;
    harness_restart(&harness);
    assert_true(learn(1.0F) == 0.125F);
    assert_true(learn(1.0F) == 0.125F);
    assert_true(learn(1.0F) == 0.125F);
    assert_true(learn(1.0F) == 0.1F);
}

// Every commit of a round, and with it the opening of the next, is taken back once.
TEST(test_what_was_rolled_back_does_not_count)
{
    const float losses[] = {2.0F, 1.0F, 1.1F, 1.0F, 0.9F, 1.0F, 0.9F, 0.95F};
    const float rates[] = {0.5F, 0.5F, 0.5F, 0.5F, 0.25F, 0.25F, 0.25F, 0.125F};
    const tern_CheckinRequest plain = tern_CheckinRequest_init_zero;
    start();
    for (uint32_t i = 0; i < 8; i++) {
        const tern_Task task = task_of(1);
        const struct report what = {.value = 0.01F, .loss = losses[i]};
        assert_true(task.learning_rate == rates[i]);
        refuse_writes(harness.path, "BEFORE INSERT ON rounds", "");
        report(1, &task, &what);
        answer_expect(put_checkin(&harness, 1, &plain), 503);
        take_writes(harness.path);
        harness_await_store(&harness);
        assert_int_equal(report(1, &task, &what), 200);
    }
}

TEST(test_a_replay_takes_them_from_the_rounds)
{
    struct tern_replay_report replayed;
    char why[256];
    start();
    for (uint32_t i = 0; i < 6; i++) {
        learn(1.0F);
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &replayed, why), TERN_OK);
    assert_int_equal(replayed.updates, 6);
    assert_int_equal(stored(6).decays, 2);
}
