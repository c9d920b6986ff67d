// The figures for classes that an evaluation reports beside the accuracy.
#include "tests/cases.h"
#include "trainer/support.h"
#include <string.h>

#define EXAMPLES 51

static struct tern_evaluate_result found;

static void expect(const char *name, double value)
{
    for (uint32_t i = 0; i < found.metric_count; i++) {
        if (strcmp(found.metrics[i].name, name) == 0) {
            assert_float_equal(found.metrics[i].value, value, 1e-6F);
            return;
        }
    }
    fail_msg("no metric %s", name);
}

// Evaluates a model that names class 0 whatever it sees, on so many examples of each of four classes.
static void evaluate(const uint32_t counts[4])
{
    struct tern_dataset data = random_images(EXAMPLES, 1, 2, 1, 4);
    uint16_t *labels = (uint16_t *)(uintptr_t)data.labels;
    struct setup setup;
    for (uint32_t class = 0, next = 0; class < 4; class ++) {
        for (uint32_t i = 0; i < counts[class]; i++) {
            labels[next++] = (uint16_t) class;
        }
    }
    setup_make(&setup, "softmax:2-4", tern_view_all(&data), tern_view_all(&data), 8);
    memset(setup.base, 0, setup.model.count * sizeof setup.base[0]);
    setup.base[setup.model.tensors[1].offset] = 1;
    assert_int_equal(
        setup.trainer.evaluate(setup.trainer.ctx, setup.base, setup.model.count, &found), TERN_OK);
    setup_free(&setup);
    free_images(&data);
}

CASE(the_largest_and_the_worst_class_are_named)
{
    evaluate((const uint32_t[]){30, 9, 12, 0});
    assert_int_equal(found.metric_count, 4);
    expect("f1_macro", 2.0 * 30 / (EXAMPLES + 30) / 3);
    expect("largest", 30.0 / EXAMPLES);
    expect("recall_worst", 0);
    expect("class_worst", 2); // as few are right as of class 1, which has fewer examples
    evaluate((const uint32_t[]){49, 1, 1, 0});
    expect("recall_worst", 1);
    expect("class_worst", 0); // the others have fewer than 3 examples
}

CASE(a_class_of_a_handful_of_examples_is_the_worst)
{
    evaluate((const uint32_t[]){45, 4, 2, 0});
    expect("recall_worst", 0);
    expect("class_worst", 1);
}

CASE(classes_of_few_examples_have_no_recall)
{
    struct tern_dataset data = random_images(6, 1, 2, 1, 3);
    memcpy((uint16_t *)(uintptr_t)data.labels, (const uint16_t[]){0, 0, 1, 1, 2, 2},
           6 * sizeof(uint16_t));
    struct setup setup;
    setup_make(&setup, "softmax:2-3", tern_view_all(&data), tern_view_all(&data), 8);
    assert_int_equal(
        setup.trainer.evaluate(setup.trainer.ctx, setup.base, setup.model.count, &found), TERN_OK);
    assert_int_equal(found.metric_count, 2);
    setup_free(&setup);
    free_images(&data);
}
