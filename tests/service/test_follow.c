// A federation that follows another one's model, as a gateway's does: no round opens by itself, a version is what it
// was told, and rounds in between are of its devices, trained as they were told.
#include "federation/state.h"
#include "harness.h"
#include "merge/merge.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduled.h"
#include "tests/cases.h"

#define UPSTREAM 1
#define DEVICE 2

static const struct tern_upstream_training course = {.local_steps = 7,
                                                     .batch_size = 3,
                                                     .learning_rate = 0.125F,
                                                     .momentum = 0.5F,
                                                     .weight_decay = 0.25F,
                                                     .prox_mu = 0.75F,
                                                     .window_ms = 5000};

static void start(void)
{
    struct tern_federation_config *config = &harness.config.federation;
    config->upstream_client = UPSTREAM;
    config->round.cohort = 1;
    config->round.quorum = 1;
    config->round.deadline_ms = 60000;
    config->min_clients = 1;
    tern_federation_config_set_training(config, &course);
    assert_int_equal(tern_codec_parse("3lc:s=1.5", &config->downloads.codec, NULL), TERN_OK);
    harness_start(&harness);
    assert_int_equal(enroll(&harness, true), UPSTREAM);
    assert_int_equal(enroll(&harness, false), DEVICE);
}

// --- What a gateway does

struct order {
    uint64_t upstream_client;
    float *weights;
    uint32_t count;
    uint32_t round;
    struct tern_refusal refusal;
    float *global; // as it is
};

static enum tern_result follow(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    struct order *order = ctx;
    tern_federation_set_training(federation, &course);
    return tern_federation_set_model(federation, order->upstream_client, order->weights,
                                     order->count, now_ms, &order->refusal);
}

static enum tern_result let_open(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    const struct order *order = ctx;
    (void)now_ms;
    tern_federation_allow_round(federation, order->round);
    return TERN_OK;
}

static enum tern_result read_global(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    struct order *order = ctx;
    (void)now_ms;
    memcpy(order->global, federation->merge.global, order->count * sizeof(float));
    return TERN_OK;
}

static enum tern_result fail_after(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    assert_int_equal(follow(federation, now_ms, ctx), TERN_OK);
    return TERN_ERR_NO_SPACE;
}

static void make_order(struct order *order)
{
    *order = (struct order){.upstream_client = UPSTREAM, .count = harness.model.count};
    order->weights = malloc(order->count * sizeof(float));
    order->global = malloc(order->count * sizeof(float));
}

static void free_order(struct order *order)
{
    free(order->weights);
    free(order->global);
}

static void do_now(tern_service_work work, struct order *order)
{
    assert_int_equal(tern_service_run_work(harness.service, work, order), TERN_OK);
}

// Until no round is being merged.
static struct tern_federation_facts settled(void)
{
    struct tern_service_facts facts;
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000L}, NULL);
        tern_service_facts(harness.service, &facts);
    } while (facts.federation.merging);
    return facts.federation;
}

static void expect_version(uint32_t version)
{
    struct tern_federation_facts facts = settled();
    for (unsigned tries = 0; facts.version != version && tries < 5000; tries++) {
        facts = settled();
    }
    assert_int_equal(facts.version, version);
    assert_false(facts.machine.open);
}

static void aim(struct order *order, float scale)
{
    for (uint32_t i = 0; i < order->count; i++) {
        order->weights[i] = scale * (float)((int)(i * 37 % 101) - 50);
    }
}

// The global model is these weights, but for two roundings.
static void expect_global(struct order *order, float added)
{
    do_now(read_global, order);
    for (uint32_t i = 0; i < order->count; i++) {
        const float expected = order->weights[i] + added;
        assert_true(fabsf(order->global[i] - expected) <= 2 * FLT_EPSILON * (1 + fabsf(expected)));
    }
}

// --- Tests

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_no_round_opens_by_itself)
{
    start();
    assert_false(checkin(&harness, DEVICE, NULL).has_task);
    test_advance(100000);
    assert_false(checkin(&harness, DEVICE, NULL).has_task);
    assert_int_equal(settled().machine.round, 0);
}

TEST(test_a_version_is_what_it_is_told)
{
    struct order order;
    (void)state;
    start();
    make_order(&order);
    for (uint32_t version = 1; version <= 3; version++) {
        aim(&order, 0.01F * (float)version);
        do_now(follow, &order);
        assert_int_equal(order.refusal.result, TERN_OK);
        expect_version(version);
        expect_global(&order, 0.0F); // however much the downloads of it lose
    }
    assert_false(checkin(&harness, DEVICE, NULL).has_task);
    harness_restart(&harness); // it is made again, from what is stored
    expect_version(3);
    expect_global(&order, 0.0F);
    free_order(&order);
}

TEST(test_one_round_of_devices_opens_when_told)
{
    struct order order;
    (void)state;
    start();
    make_order(&order);
    aim(&order, 0.01F);
    do_now(follow, &order);
    expect_version(1);
    order.round = 2;
    do_now(let_open, &order);
    const tern_Task task = task_of(DEVICE);
    assert_int_equal(task.round, 2);
    assert_int_equal(task.local_steps, course.local_steps);
    assert_int_equal(task.batch_size, course.batch_size);
    assert_true(task.learning_rate == course.learning_rate && task.momentum == course.momentum);
    assert_true(task.weight_decay == course.weight_decay && task.prox_mu == course.prox_mu);
    assert_true(task.window_ms > 0 && task.window_ms <= course.window_ms);
    do_now(follow, &order);
    assert_int_equal(order.refusal.result, TERN_ERR_BUSY);
    assert_int_equal(report(DEVICE, &task, &(struct report){.value = 0.25F, .loss = 1.0F}), 200);
    expect_version(2);
    expect_global(&order, 0.25F); // whatever the settings say of strategies
    assert_false(checkin(&harness, DEVICE, NULL).has_task);
    harness_restart(&harness);
    assert_false(checkin(&harness, DEVICE, NULL).has_task);
    assert_int_equal(settled().machine.round, 2);
    free_order(&order);
}

TEST(test_what_does_not_fit_is_refused)
{
    struct order order;
    (void)state;
    start();
    make_order(&order);
    aim(&order, 0.01F);
    order.count--;
    do_now(follow, &order);
    assert_int_equal(order.refusal.result, TERN_ERR_MODEL_MISMATCH);
    order.count++;
    order.upstream_client = DEVICE; // which may be drawn for rounds
    do_now(follow, &order);
    assert_int_equal(order.refusal.result, TERN_ERR_NOT_FOUND);
    order.upstream_client = UPSTREAM;
    order.weights[5] = 1e9F;
    do_now(follow, &order);
    assert_int_equal(order.refusal.result, TERN_ERR_NORM_LIMIT);
    order.weights[5] = NAN;
    do_now(follow, &order);
    assert_int_not_equal(order.refusal.result, TERN_OK);
    assert_int_equal(settled().machine.round, 0);
    free_order(&order);
}

TEST(test_a_transaction_that_fails_leaves_nothing)
{
    struct order order;
    (void)state;
    start();
    make_order(&order);
    aim(&order, 0.01F);
    assert_int_equal(tern_service_run_work(harness.service, fail_after, &order), TERN_ERR_BUSY);
    assert_int_equal(settled().machine.round, 0);
    do_now(follow, &order);
    expect_version(1);
    expect_global(&order, 0.0F);
    free_order(&order);
}

static enum tern_result has_body(void *ctx, const struct tern_db_update *update)
{
    unsigned *bodies = ctx;
    *bodies += update->body != NULL;
    return TERN_OK;
}

// What goes up is made of them.
TEST(test_updates_of_the_newest_round_are_kept)
{
    struct order order;
    unsigned bodies = 0;
    (void)state;
    harness.config.federation.limits.history = 1;
    start();
    make_order(&order);
    aim(&order, 0.01F);
    do_now(follow, &order);
    expect_version(1);
    order.round = 2;
    do_now(let_open, &order);
    const tern_Task task = task_of(DEVICE);
    assert_int_equal(report(DEVICE, &task, &(struct report){.value = 0.25F, .loss = 1.0F}), 200);
    expect_version(2);
    for (int i = 0; i < 5; i++) { // transactions in which they could be dropped
        checkin(&harness, DEVICE, NULL);
        do_now(read_global, &order);
    }
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_update_each(db, 1, has_body, &bodies), TERN_OK);
    assert_int_equal(bodies, 0); // those that are not the newest go
    assert_int_equal(tern_db_update_each(db, 2, has_body, &bodies), TERN_OK);
    assert_int_equal(bodies, 1);
    tern_db_close(db);
    free_order(&order);
}
