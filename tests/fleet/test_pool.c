// Clients share trainers: never more at once than there are, and what one trains does not depend on
// who used the trainer before.
#include "data/source.h"
#include "fleet/pool.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct tern_data data;
static struct tern_model model;
static float *base;

static int set_up(void **state)
{
    (void)state;
    char why[TERN_DATA_WHY_MAX];
    assert_int_equal(tern_dataset_open("digits:train=200,test=50,size=16", NULL, &data, why),
                     TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "mlp:256-8-10"), TERN_OK);
    base = calloc(model.count, sizeof *base);
    tern_model_init_weights(&model, 1, base);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(base);
    tern_data_close(&data);
    return 0;
}

static struct tern_view first_examples(uint32_t count)
{
    return (struct tern_view){.dataset = &data.train, .count = count};
}

static const float *train(struct tern_pool_seat *seat, uint32_t client)
{
    struct tern_trainer port = tern_pool_port(seat);
    const struct tern_train_task task = {.round = 1,
                                         .local_steps = 3,
                                         .batch_size = 8,
                                         .learning_rate = 0.1f,
                                         .momentum = 0.9f,
                                         .seed = 1,
                                         .client = client};
    float *weights = NULL;
    struct tern_train_result trained;
    enum tern_result result = port.begin(port.ctx, &task, base, model.count);
    assert_int_equal(result, TERN_OK);
    do {
        result = port.step(port.ctx, &weights, &trained);
    } while (result == TERN_AGAIN);
    assert_int_equal(result, TERN_OK);
    assert_int_equal(trained.num_examples, seat->train.count);
    return weights;
}

CASE(a_used_trainer_gives_the_same_bits_as_a_new_one)
{
    struct tern_pool pool;
    float *first = calloc(model.count, sizeof *first);
    assert_int_equal(
        tern_pool_init(&pool, &model, 1, first_examples(200), tern_view_all(&data.test)), TERN_OK);
    struct tern_pool_seat small = {.pool = &pool, .train = first_examples(20)};
    struct tern_pool_seat large = {.pool = &pool, .train = first_examples(200)};
    memcpy(first, train(&small, 1), model.count * sizeof *first);
    tern_pool_release(&small);
    (void)train(&large, 2);
    tern_pool_release(&large);
    assert_memory_equal(train(&small, 1), first, model.count * sizeof *first);
    tern_pool_release(&small);
    tern_pool_clear(&pool);
    free(first);
}

// A client that wants the pool's only trainer.
struct waiting {
    struct tern_pool_seat seat;
    _Atomic bool trained;
};

static void *wait_and_train(void *argument)
{
    struct waiting *waiting = argument;
    (void)train(&waiting->seat, 2);
    waiting->trained = true;
    tern_pool_release(&waiting->seat);
    return NULL;
}

CASE(a_client_waits_until_a_trainer_is_given_back)
{
    struct tern_pool pool;
    pthread_t thread;
    assert_int_equal(
        tern_pool_init(&pool, &model, 1, first_examples(200), tern_view_all(&data.test)), TERN_OK);
    struct tern_pool_seat first = {.pool = &pool, .train = first_examples(20)};
    struct waiting second = {.seat = {.pool = &pool, .train = first_examples(20)}};
    (void)train(&first, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_and_train, &second), 0);
    const struct timespec moment = {.tv_nsec = 50 * 1000000};
    nanosleep(&moment, NULL);
    assert_false(second.trained);
    tern_pool_release(&first);
    pthread_join(thread, NULL);
    assert_true(second.trained);
    tern_pool_clear(&pool);
}

CASE(an_evaluation_gives_its_trainer_back)
{
    struct tern_pool pool;
    struct tern_evaluate_result evaluated;
    assert_int_equal(
        tern_pool_init(&pool, &model, 1, first_examples(200), tern_view_all(&data.test)), TERN_OK);
    struct tern_pool_seat seat = {.pool = &pool, .test = tern_view_all(&data.test)};
    struct tern_trainer port = tern_pool_port(&seat);
    assert_int_equal(port.evaluate(port.ctx, base, model.count, &evaluated), TERN_OK);
    assert_int_equal(evaluated.num_examples, 50);
    assert_int_equal(port.evaluate(port.ctx, base, model.count, &evaluated), TERN_OK);
    tern_pool_clear(&pool);
}

CASE(data_of_another_shape_is_refused)
{
    struct tern_model other = {0};
    struct tern_pool pool;
    assert_int_equal(tern_model_from_spec(&other, "mlp:784-8-10"), TERN_OK);
    assert_int_equal(
        tern_pool_init(&pool, &other, 1, first_examples(200), tern_view_all(&data.test)),
        TERN_ERR_MODEL_MISMATCH);
    tern_pool_clear(&pool);
}

CASES_SHARE(set_up, tear_down)
