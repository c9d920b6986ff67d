// A federation whose losses say that it should end: its clients are told that it is finished, also
// after a restart, and the log names the reason and the best version.
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "scheduled.h"
#include "tests/cases.h"
#include "watched_log.h"

static void start(void)
{
    harness.config.federation.round.cohort = 1;
    harness.config.federation.round.quorum = 1;
    harness.config.federation.min_clients = 1;
    harness_start(&harness);
    enroll(&harness, false);
}

// One round of client 1 with that loss.
static void learn(float loss)
{
    const tern_Task task = task_of(1);
    assert_int_equal(report(1, &task, &(struct report){.value = 0.01F, .loss = loss}), 200);
}

static void expect_ended(const char *advice)
{
    struct tern_service_facts facts;
    const tern_CheckinReply reply = checkin(&harness, 1, NULL);
    assert_true(reply.finished);
    assert_false(reply.has_task);
    tern_service_facts(harness.service, &facts);
    assert_non_null(strstr(facts.federation.advice, advice));
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_federation_that_diverges_ends)
{
    harness.config.federation.round.ending.divergence_rounds = 3;
    start();
    watch_log();
    learn(2.0F);
    learn(1.5F);
    for (int i = 0; i < 3; i++) {
        assert_false(checkin(&harness, 1, NULL).finished);
        learn(9000.0F);
    }
    const unsigned lines =
        lines_of("federation-ended", "reason=diverged round=5 loss=9000 "
                                     "first_loss=2 lowest_loss=1.5 best_version=1 advice=");
    leave_log();
    assert_int_equal(lines, 1);
    expect_ended("train.learning_rate");
    harness_restart(&harness);
    expect_ended("train.learning_rate");
}

TEST(test_it_goes_on_where_the_setting_says_so)
{
    harness.config.federation.round.ending.divergence_rounds = 1;
    start();
    learn(2.0F);
    learn(9000.0F);
    expect_ended("round.divergence_rounds = 0");
    harness.config.federation.round.ending.divergence_rounds = 0;
    harness_restart(&harness);
    learn(9000.0F);
    assert_false(checkin(&harness, 1, NULL).finished);
}

TEST(test_patience_runs_out)
{
    harness.config.federation.round.ending.patience = 2;
    start();
    learn(2.0F);
    learn(1.0F);
    learn(1.1F);
    assert_false(checkin(&harness, 1, NULL).finished);
    learn(1.0F);
    expect_ended("round.patience");
}
