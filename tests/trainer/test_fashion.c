// Real input: Fashion-MNIST's four IDX files in the folder that TERN_DATA_DIR names, or in its
// subfolder fashion-mnist.
#include "data/source.h"
#include "trainer/support.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct tern_data fashion;

CASE(all_examples_are_there)
{
    assert_int_equal(fashion.train.count, 60000);
    assert_int_equal(fashion.test.count, 10000);
    assert_int_equal(fashion.train.height, 28);
    assert_int_equal(fashion.train.width, 28);
    assert_int_equal(fashion.train.channels, 1);
    assert_int_equal(fashion.train.class_count, 10);
    uint32_t per_class[10] = {0};
    for (uint32_t i = 0; i < fashion.train.count; i++) {
        per_class[fashion.train.labels[i]]++;
    }
    for (int k = 0; k < 10; k++) {
        assert_int_equal(per_class[k], 6000);
    }
}

CASE(an_mlp_learns_it)
{
    struct setup setup;
    setup_make(&setup, "mlp:784-128-10", tern_view_all(&fashion.train),
               tern_view_all(&fashion.test), 32);
    struct tern_train_task task = {
        .local_steps = 4000, .batch_size = 32, .learning_rate = 0.02f, .momentum = 0.9f};
    struct tern_train_result result;
    struct tern_evaluate_result score;
    clock_t started = clock();
    const float *trained = setup_train(&setup, &task, setup.base, &result);
    clock_t trained_at = clock();
    assert_int_equal(setup.trainer.evaluate(setup.trainer.ctx, trained, setup.model.count, &score),
                     TERN_OK);
    print_message("accuracy %.4f; 20 steps %.1f ms, evaluation of 10,000 %.1f ms\n",
                  (double)score.accuracy,
                  1e3 * (double)(trained_at - started) / CLOCKS_PER_SEC / 200,
                  1e3 * (double)(clock() - trained_at) / CLOCKS_PER_SEC);
    assert_true(score.accuracy > 0.80f);
    setup_free(&setup);
}

static enum tern_result open_folder(const char *folder, char *why)
{
    char spec[TERN_DATA_SPEC_MAX];
    snprintf(spec, sizeof spec, "idx:%s/fashion-mnist", folder);
    enum tern_result result = tern_dataset_open(spec, NULL, &fashion, why);
    if (result == TERN_ERR_NOT_FOUND) {
        snprintf(spec, sizeof spec, "idx:%s", folder);
        result = tern_dataset_open(spec, NULL, &fashion, why);
    }
    return result;
}

int main(void)
{
    const char *folder = getenv("TERN_DATA_DIR");
    char why[TERN_DATA_WHY_MAX] = "";
    if (folder == NULL || folder[0] == '\0') {
        print_message("skipped: TERN_DATA_DIR does not name the folder of Fashion-MNIST's files\n");
        return 77;
    }
    if (open_folder(folder, why) != TERN_OK) {
        print_error("%s\n", why);
        return 1;
    }
    int failed = test_cases_run(&cases_of_this_file, __FILE__);
    tern_data_close(&fashion);
    return failed;
}
