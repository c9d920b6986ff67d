// The trainer port over a shared object: a good one trains, one that does not fit is refused by
// name before anything else, and what it answers is checked.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "external/library_trainer.h"
#include "tests/asserts.h"

static struct tern_model model;
static struct tern_library_trainer trainer;
static struct tern_trainer port;
static float base[64];
static char why[TERN_EXTERNAL_WHY_MAX];

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(tern_model_from_spec(&model, "softmax:5-3"), TERN_OK);
    tern_model_init_weights(&model, 1, base);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_library_trainer_close(&trainer);
    return 0;
}

static enum tern_result open_library(const char *path, const char *options)
{
    const struct tern_library_config config = {
        .path = path, .options = options, .spec = "softmax:5-3", .model = &model};
    tern_library_trainer_close(&trainer);
    const enum tern_result opened = tern_library_trainer_open(&trainer, &config, why);
    port = tern_library_trainer_port(&trainer);
    return opened;
}

static void expect_said(const char *said, const char *part)
{
    if (strstr(said, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", said, part);
    }
}

static void expect_refused(const char *path, const char *options, enum tern_result expected,
                           const char *part)
{
    why[0] = '\0';
    assert_int_equal(open_library(path, options), expected);
    expect_said(why, part);
}

#ifdef STRANGE

#define STEPS 4

static float *weights;
static struct tern_train_result result;

static enum tern_result train(void (*ahead)(void *ctx, float *start))
{
    const struct tern_train_task task = {
        .round = 1, .local_steps = STEPS, .batch_size = 2, .learning_rate = 0.5f, .ahead = ahead};
    weights = NULL;
    enum tern_result done = port.begin(port.ctx, &task, base, model.count);
    if (done != TERN_OK) {
        return done;
    }
    for (int i = 0; i < STEPS - 1; i++) { // one local step a call
        assert_int_equal(port.step(port.ctx, &weights, &result), TERN_AGAIN);
        assert_null(weights);
    }
    return port.step(port.ctx, &weights, &result);
}

static void a_good_library_trains(void **state)
{
    (void)state;
    assert_int_equal(open_library(STRANGE, ""), TERN_OK);
    assert_int_equal(train(NULL), TERN_OK);
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(weights[i] > base[i] + 3.99f && weights[i] < base[i] + 4.01f);
    }
    assert_int_equal(result.num_examples, 7);
    assert_int_equal(result.local_steps, STEPS);
    assert_int_equal(port.step(port.ctx, &weights, &result), TERN_ERR_STATE);
    struct tern_evaluate_result found = {0};
    assert_int_equal(port.evaluate(port.ctx, base, model.count, &found), TERN_AGAIN);
    assert_int_equal(port.evaluate(port.ctx, base, model.count, &found), TERN_AGAIN);
    assert_int_equal(found.num_examples, 0);
    assert_int_equal(port.evaluate(port.ctx, base, model.count, &found), TERN_OK);
    assert_int_equal(found.num_examples, 9);
}

static void ahead_by_ten(void *ctx, float *start)
{
    (void)ctx;
    for (uint32_t i = 0; i < model.count; i++) {
        start[i] += 10;
    }
}

static void it_starts_ahead_where_the_task_says_so(void **state)
{
    (void)state;
    assert_int_equal(open_library(STRANGE, ""), TERN_OK);
    assert_int_equal(train(ahead_by_ten), TERN_OK);
    assert_true(weights[0] > base[0] + 13.99f && weights[0] < base[0] + 14.01f);
}

static void one_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    expect_refused("/nonexistent.so", "", TERN_ERR_CONFIG, "cannot be loaded");
    expect_refused(STRANGE_NAME, "", TERN_ERR_CONFIG, "no function tern_trainer_entry()");
    expect_refused(STRANGE_VERSION, "", TERN_ERR_CONFIG, "version 2 of the trainer interface");
    expect_refused(STRANGE_SIZE, "", TERN_ERR_CONFIG, "bytes; version 1 has");
    expect_refused(STRANGE_NULL, "", TERN_ERR_CONFIG, "a function of the library is NULL");
    expect_refused(STRANGE_CLIENT, "", TERN_ERR_CONFIG, "does not work with version 1");
    expect_refused(STRANGE, "refuse", TERN_ERR_TRAINER, "I refuse");
}

static void expect_failure(const char *options, enum tern_result expected, const char *part)
{
    assert_int_equal(open_library(STRANGE, options), TERN_OK);
    result.num_examples = 123;
    assert_int_equal(train(NULL), expected);
    expect_said(trainer.why, part);
    assert_null(weights);
    assert_int_equal(result.num_examples, 123);
    assert_int_equal(port.step(port.ctx, &weights, &result), TERN_ERR_STATE);
}

static void what_it_answers_is_checked(void **state)
{
    (void)state;
    expect_failure("nan weight", TERN_ERR_TRAINER, "weights contain NaN");
    expect_failure("nan loss", TERN_ERR_TRAINER, "loss is NaN");
    expect_failure("no examples", TERN_ERR_TRAINER, "num_examples is 0");
    expect_failure("many steps", TERN_ERR_TRAINER, "local_steps is 5");
    expect_failure("strange", TERN_ERR_TRAINER, "step() returned 77");
    expect_failure("fail", TERN_ERR_TRAINER, "it went wrong");
    expect_failure("say nothing", TERN_ERR_TRAINER, "failed without a reason");
    expect_failure("talk", TERN_ERR_TRAINER, "xxxx");
    expect_failure("no data", TERN_ERR_NOT_FOUND, "no examples");
    struct tern_evaluate_result found = {0};
    assert_int_equal(port.evaluate(port.ctx, base, model.count, &found), TERN_ERR_NOT_FOUND);
    assert_int_equal(open_library(STRANGE, "too good"), TERN_OK);
    enum tern_result done = TERN_AGAIN;
    while (done == TERN_AGAIN) {
        done = port.evaluate(port.ctx, base, model.count, &found);
    }
    assert_int_equal(done, TERN_ERR_TRAINER);
    expect_said(trainer.why, "accuracy is 1.5");
    assert_int_equal(found.num_examples, 0);
}

static void another_model_is_refused(void **state)
{
    (void)state;
    const struct tern_train_task task = {.local_steps = 1, .batch_size = 1};
    assert_int_equal(open_library(STRANGE, ""), TERN_OK);
    assert_int_equal(port.begin(port.ctx, &task, base, model.count - 1), TERN_ERR_MODEL_MISMATCH);
}

static void write_idx(const char *folder, const char *name, uint8_t dims, size_t values)
{
    char path[200];
    uint8_t bytes[64] = {0, 0, 8, dims};
    size_t len = 4;
    const uint8_t sizes[] = {2, 1, 5}; // two black images of 1 by 5, of class 0
    for (uint8_t i = 0; i < dims; i++, len += 4) {
        bytes[len + 3] = sizes[i];
    }
    snprintf(path, sizeof path, "%s/%s-ubyte", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, len + values, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

// A frozen bias of 50 for another class than theirs: the loss of the images is 50, not log(3).
static void the_example_reads_what_is_frozen_from_the_base(void **state)
{
    (void)state;
    static const char *const files[] = {"train-images-idx3", "train-labels-idx1",
                                        "t10k-images-idx3", "t10k-labels-idx1"};
    const char *temporary = getenv("TMPDIR");
    char folder[128];
    snprintf(folder, sizeof folder, "%.80s/tern-library-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 4; i++) {
        write_idx(folder, files[i], i % 2 == 0 ? 3 : 1, i % 2 == 0 ? 10 : 2);
    }
    tern_model_clear(&model);
    assert_int_equal(
        tern_model_add_by_rule(&model, "fc1.weight", (uint32_t[]){3, 5}, 2, TERN_RULE_FUSE),
        TERN_OK);
    assert_int_equal(tern_model_add_by_rule(&model, "fc1.bias", (uint32_t[]){3}, 1, TERN_RULE_SKIP),
                     TERN_OK);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    memset(base, 0, sizeof base);
    base[15 + 1] = 50;
    assert_int_equal(open_library(SOFTMAX, folder), TERN_OK);
    assert_int_equal(train(NULL), TERN_OK);
    assert_true(result.loss > 49 && result.loss < 51);
    for (uint32_t i = 15; i < 18; i++) {
        assert_true(weights[i] == 0); // nobody wrote there
    }
    for (int i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s-ubyte", folder, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_good_library_trains),
        TEST(it_starts_ahead_where_the_task_says_so),
        TEST(one_that_does_not_fit_is_refused),
        TEST(what_it_answers_is_checked),
        TEST(another_model_is_refused),
        TEST(the_example_reads_what_is_frozen_from_the_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void a_static_program_says_that_it_cannot(void **state)
{
    (void)state;
    expect_refused("/nonexistent.so", "", TERN_ERR_CONFIG, "linked statically");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_static_program_says_that_it_cannot, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
