// The generated sets tell models apart: a linear one cannot learn them well, a small network can. Under a
// sanitizer the same trainers see a tenth of the examples, of which nothing is learnt for certain.
#include "data/source.h"
#include "sanitized.h"
#include "tests/cases.h"
#include "trainer/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if SANITIZED
#define EXAMPLES "train=600,test=200"
#else
#define EXAMPLES "train=6000,test=2000"
#endif

static struct tern_data digits;
static struct tern_data sensors;
static struct tern_data audio;

// Test accuracy after some epochs over the training examples.
static float accuracy_of(const struct tern_data *data, const char *spec, float learning_rate,
                         uint32_t epochs)
{
    struct setup setup;
    setup_make(&setup, spec, tern_view_all(&data->train), tern_view_all(&data->test), 32);
    struct tern_train_task task = {
        .local_steps = data->train.count / 32 * epochs,
        .batch_size = 32,
        .learning_rate = learning_rate,
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

static void expect_between(float accuracy, float least, float most)
{
    assert_true(accuracy >= 0 && accuracy <= 1);
    if (!SANITIZED) {
        assert_true(accuracy > least && accuracy < most);
    }
}

CASE(softmax_stays_below_093)
{
    expect_between(accuracy_of(&digits, "softmax:256-10", 0.05f, 15), 0.70f, 0.93f);
}

CASE(mlp_is_between)
{
    expect_between(accuracy_of(&digits, "mlp:256-64-10", 0.05f, 6), 0.93f, 1);
}

CASE(cnn_passes_096)
{
    expect_between(accuracy_of(&digits, "cnn:16x16x1-8-16-10", 0.05f, 4), 0.96f, 1);
}

CASE(sensors_need_a_hidden_layer)
{
    expect_between(accuracy_of(&sensors, "softmax:24-8", 0.01f, 5), 0.60f, 0.83f);
    expect_between(accuracy_of(&sensors, "mlp:24-64-8", 0.01f, 8), 0.84f, 0.94f);
}

CASE(audio_needs_convolutions)
{
    expect_between(accuracy_of(&audio, "mlp:512-64-10", 0.01f, 4), 0.45f, 0.80f);
    expect_between(accuracy_of(&audio, "cnn:16x32x1-8-16-10", 0.02f, 5), 0.80f, 0.93f);
}

static int open_sets(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        struct tern_data *data;
    } sets[] = {{"digits:" EXAMPLES ",size=16,seed=1", &digits},
                {"sensors:" EXAMPLES ",devices=50,seed=1", &sensors},
                {"audio:" EXAMPLES ",speakers=50,seed=1", &audio}};
    char why[TERN_DATA_WHY_MAX];
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (tern_dataset_open(sets[i].spec, NULL, sets[i].data, why) != TERN_OK) {
            return -1;
        }
    }
    return 0;
}

static int close_sets(void **state)
{
    (void)state;
    tern_data_close(&digits);
    tern_data_close(&sensors);
    tern_data_close(&audio);
    return 0;
}

CASES_SHARE(open_sets, close_sets)
