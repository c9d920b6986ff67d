// Pooled training takes each round's task once, by the rates of the run, and a federation that is far behind it is named.
#include "data/source.h"
#include "fleet/pooled.h"
#include "tests/cases.h"
#include <math.h>
#include <string.h>

static struct tern_shares shares = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct tern_model model;
static volatile sig_atomic_t interrupted;

static int set_up(void **state)
{
    (void)state;
    char why[TERN_DATA_WHY_MAX];
    assert_int_equal(
        tern_dataset_open("digits:train=400,test=200,size=16", NULL, &shares.data, why), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "mlp:256-8-10"), TERN_OK);
    interrupted = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_data_close(&shares.data);
    return 0;
}

static struct tern_train_task task(uint32_t round, uint32_t client, uint32_t steps)
{
    return (struct tern_train_task){.round = round,
                                    .local_steps = steps,
                                    .batch_size = 16,
                                    .learning_rate = 0.1f,
                                    .seed = 1,
                                    .client = client};
}

static enum tern_result train(struct tern_pooled *pooled, struct tern_evaluate_result *found)
{
    return tern_pooled_train(pooled, &model, 1, &shares, &interrupted, found);
}

CASE_WITH(each_round_is_trained_once_whichever_client_came_first, set_up, tear_down)
{
    struct tern_evaluate_result one = {0};
    struct tern_evaluate_result other = {0};
    struct tern_pooled first = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct tern_pooled second = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    for (uint32_t r = 1; r <= 20; r++) {
        const struct tern_train_task long_one = task(r, 1, 20);
        const struct tern_train_task short_one = task(21 - r, 2, 5);
        tern_pooled_note(&first, &long_one);
        tern_pooled_note(&second, &short_one);
    }
    for (uint32_t r = 20; r >= 1; r--) { // those of the most steps count
        const struct tern_train_task long_one = task(r, 3, 20);
        const struct tern_train_task short_one = task(r, 2, 5);
        tern_pooled_note(&first, &short_one);
        tern_pooled_note(&second, &long_one);
    }
    assert_int_equal(train(&first, &one), TERN_OK);
    assert_int_equal(train(&second, &other), TERN_OK);
    assert_int_equal(first.steps, 400);
    assert_int_equal(one.num_examples, 200);
    assert_true(one.accuracy > 0.4f);
    assert_true(one.accuracy == other.accuracy && one.loss == other.loss);
    tern_pooled_clear(&first);
    tern_pooled_clear(&second);
}

CASE_WITH(nothing_is_trained_without_a_task_or_after_an_interrupt, set_up, tear_down)
{
    struct tern_evaluate_result found = {0};
    struct tern_pooled pooled = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct tern_train_task full = task(1, 1, 1);
    full.batch_size = TERN_TRAIN_ALL;
    tern_pooled_note(&pooled, &full);
    assert_int_equal(train(&pooled, &found), TERN_ERR_NOT_FOUND);
    full.batch_size = 16;
    full.local_steps = 9;
    tern_pooled_note(&pooled, &full);
    interrupted = 1;
    assert_int_equal(train(&pooled, &found), TERN_AGAIN);
    assert_int_equal(found.num_examples, 0);
    tern_pooled_clear(&pooled);
}

CASE(a_federation_far_below_is_named)
{
    char text[TERN_POOLED_TEXT_MAX];
    struct tern_evaluate_result found = {.num_examples = 9,
                                         .no_accuracy = true,
                                         .metric_count = 1,
                                         .metrics = {{.name = "r2", .value = 0.61f}}};
    assert_true(tern_pooled_is_far(0.01, &found, text));
    assert_non_null(
        strstr(text, "the R2, 0.0100, is far below the 0.6100 of one client with all rows"));
    assert_false(tern_pooled_is_far(0.52, &found, text));
    assert_false(tern_pooled_is_far(0.9, &found, text));
    assert_false(tern_pooled_is_far(NAN, &found, text));
    found.metric_count = 0; // a loss alone
    assert_false(tern_pooled_is_far(0.01, &found, text));
    found.no_accuracy = false;
    found.accuracy = 0.8f;
    assert_true(tern_pooled_is_far(0.76, &found, text));
    assert_non_null(strstr(text, "the accuracy, 0.7600"));
    assert_false(tern_pooled_is_far(0.78, &found, text));
}
