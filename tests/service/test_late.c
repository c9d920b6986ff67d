// What the service learns from updates that come too late: how fast their clients train, and
// nothing else.
#include "harness.h"
#include "tests/cases.h"
#include "tests/rounds/steps_policy.h"

#include <stdlib.h>
#include <string.h>

static struct harness harness;
static uint64_t slow;
static uint64_t other;
static uint64_t invited; // never asks for its task

static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    harness.config.federation.steps = (struct tern_steps_settings){.local_steps = 20,
                                                                   .min_steps = 1,
                                                                   .max_steps = 1000,
                                                                   .fraction = 0.5,
                                                                   .start = 1.0,
                                                                   .interval = 1};
    set_steps_policy(&harness.config.federation.steps, "deadline");
    harness.config.federation.round.cohort = 3;
    harness.config.federation.round.quorum = 1;
    harness.config.federation.min_clients = 2;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

static void start(void)
{
    harness_start(&harness);
    slow = enroll(&harness, false);
    other = enroll(&harness, false);
    invited = enroll(&harness, false);
}

static tern_Task task_of(uint64_t client)
{
    tern_CheckinReply reply = checkin(&harness, client, NULL);
    assert_true(reply.has_task);
    return reply.task;
}

// The round ends with the other's update alone, and the next one opens.
static void end_round(void)
{
    do_round(&harness, other, NULL, 0.1F);
    test_advance(60001);
    (void)task_of(other);
}

struct report {
    uint32_t train_ms;
    uint32_t local_steps; // 0: as many as asked
    bool of_another_model;
    bool shared_indices;
    size_t cut; // bytes at the end that did not come
};

static int report(uint64_t client, const tern_Task *task, const struct report *what)
{
    uint8_t *body;
    tern_Update message;
    struct tern_span container;
    size_t len = encode_update(&harness, task, 0.1F, 10, &body);
    assert_int_equal(tern_wire_decode_update(body, len, &message, &container), TERN_OK);
    message.local_steps = what->local_steps != 0 ? what->local_steps : task->local_steps;
    message.train_ms = what->train_ms;
    message.shared_indices = what->shared_indices;
    if (what->of_another_model) {
        message.model_hash.size = TERN_SHA256_SIZE;
        memset(message.model_hash.bytes, 0x5a, TERN_SHA256_SIZE);
    }
    uint8_t *again = malloc(len + 256);
    assert_non_null(again);
    assert_int_equal(tern_wire_encode_update(&message, container, again, len + 256, &len), TERN_OK);
    struct answer answer = put_update(&harness, client, task->round, 1, again, len - what->cut);
    int status = answer.status;
    answer_free(&answer);
    free(again);
    free(body);
    return status;
}

// As it is stored once the service has stopped.
static struct tern_db_client kept(uint64_t client)
{
    struct tern_db_client row;
    struct tern_db *db = NULL;
    char why[256];
    harness_restart(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_client_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_device_that_is_always_late_gets_fewer_steps)
{
    start();
    tern_Task task = task_of(slow);
    assert_int_equal(task.local_steps, 20);
    end_round();
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 40000}), 410);
    const struct tern_db_client row = kept(slow);
    assert_true(row.steps_per_second == 0.5F);
    // It has taken its update back: which replica it holds, only its next check-in says.
    static const uint8_t none[TERN_SHA256_SIZE];
    assert_memory_equal(row.replica, none, sizeof none);
    assert_int_equal(row.version, 0);
    tern_Task next = task_of(slow);
    assert_int_equal(next.round, 2);
    assert_int_equal(next.local_steps, 15); // 0.5/s x 60 s x 0.5
    // The same update says nothing new, whatever is written into it.
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 10}), 410);
    assert_true(kept(slow).steps_per_second == 0.5F);
    end_round();
    assert_int_equal(report(slow, &next, &(struct report){.train_ms = 60000}), 410);
    const float slower = kept(slow).steps_per_second;
    assert_true(slower < 0.45F && slower > 0.25F);
    assert_int_equal(report(slow, &next, &(struct report){.train_ms = 10}), 410);
    assert_true(kept(slow).steps_per_second == slower);
}

TEST(test_what_no_task_was_given_for_changes_nothing)
{
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    start();
    const tern_Task task = task_of(slow);
    end_round();
    store_digest(&harness, before);
    assert_int_equal(report(invited, &task, &(struct report){.train_ms = 1000}), 410);
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 10, .local_steps = 21}), 410);
    assert_int_equal(report(slow, &task, &(struct report){10, 0, .of_another_model = true}), 410);
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 10, .cut = 1}), 410);
    assert_true(kept(slow).steps_per_second == 0.0F);
    assert_true(kept(invited).steps_per_second == 0.0F);
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
    // Nor does it stand in the way of what follows.
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 40000}), 410);
    assert_true(kept(slow).steps_per_second == 0.5F);
}

// Updates whose indices are with their leader's cannot be read any more once their round is over.
TEST(test_an_update_without_indices_tells_its_speed)
{
    start();
    const tern_Task task = task_of(slow);
    end_round();
    assert_int_equal(report(slow, &task, &(struct report){40000, .shared_indices = true}), 410);
    assert_true(kept(slow).steps_per_second == 0.5F);
}

// Under a strategy that buffers, those that are too late even for it.
TEST(test_a_stale_update_tells_its_speed)
{
    harness.config.federation.strategy = &tern_strategy_fedbuff;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_STALENESS_MAX] = 0.0F;
    start();
    const tern_Task task = task_of(slow);
    end_round();
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 40000}), 410);
    assert_int_equal(report(slow, &task, &(struct report){.train_ms = 10}), 410);
    assert_true(kept(slow).steps_per_second == 0.5F);
}
