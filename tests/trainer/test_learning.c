// The generated digits tell models apart: a linear one cannot learn them well, a small CNN can.
#include "data/source.h"
#include "trainer/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tern_data digits;

// Test accuracy after some epochs over the training digits.
static float accuracy_of(const char *spec, uint32_t epochs)
{
    struct setup setup;
    setup_make(&setup, spec, tern_view_all(&digits.train), tern_view_all(&digits.test), 32);
    struct tern_train_task task = {
        .local_steps = digits.train.count / 32 * epochs,
        .batch_size = 32,
        .learning_rate = 0.05f,
        .momentum = 0.9f,
        .seed = 1,
    };
    struct tern_train_result result;
    struct tern_evaluate_result score;
    const float *trained = setup_train(&setup, &task, setup.base, &result);
    assert_int_equal(setup.trainer.evaluate(setup.trainer.ctx, trained, setup.model.count, &score),
                     TERN_OK);
    print_message("%s: accuracy %.4f after %u epochs\n", spec, (double)score.accuracy, epochs);
    setup_free(&setup);
    return score.accuracy;
}

static void softmax_stays_below_093(void **state)
{
    (void)state;
    float accuracy = accuracy_of("softmax:256-10", 15);
    assert_true(accuracy > 0.70f && accuracy < 0.93f);
}

static void mlp_is_between(void **state)
{
    (void)state;
    assert_true(accuracy_of("mlp:256-64-10", 6) > 0.93f);
}

static void cnn_passes_096(void **state)
{
    (void)state;
    assert_true(accuracy_of("cnn:16x16x1-8-16-10", 4) > 0.96f);
}

static int open_digits(void **state)
{
    (void)state;
    char why[TERN_DATA_WHY_MAX];
    enum tern_result result =
        tern_dataset_open("digits:train=6000,test=2000,size=16,seed=1", NULL, &digits, why);
    return result == TERN_OK ? 0 : -1;
}

static int close_digits(void **state)
{
    (void)state;
    tern_data_close(&digits);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_stays_below_093),
        cmocka_unit_test(mlp_is_between),
        cmocka_unit_test(cnn_passes_096),
    };
    return cmocka_run_group_tests(tests, open_digits, close_digits);
}
