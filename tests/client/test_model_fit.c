// Which examples a built-in model takes, and the message for those that it refuses.
#include "cli/model_fit.h"
#include "tests/cases.h"

#include <stdio.h>
#include <string.h>

struct example {
    const char *spec;
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    const char *says; // NULL: the model takes them
};

static const uint16_t labels[2] = {0, 1};
static const float targets[2] = {1, 2};
static const float values[2 * 784];

static bool takes(const struct example *example, uint32_t classes, bool numbers,
                  char why[MODEL_FIT_WHY_MAX])
{
    static struct tern_model model;
    const struct tern_dataset data = {.count = 2,
                                      .feature_count =
                                          example->height * example->width * example->channels,
                                      .class_count = classes,
                                      .height = example->height,
                                      .width = example->width,
                                      .channels = example->channels,
                                      .values = values,
                                      .labels = labels,
                                      .targets = numbers ? targets : NULL};
    assert_int_equal(tern_model_from_spec(&model, example->spec), TERN_OK);
    why[0] = '\0';
    return tern_model_accepts(example->spec, &model, &data, why);
}

static void assert_says(const char *why, const char *part)
{
    if (strstr(why, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, why);
    }
}

CASE(shapes_are_named_and_how_to_turn_one_into_the_other)
{
    static const char cnn[] = "cnn:8x6x3-4-4-2";
    static const struct example examples[] = {
        {cnn, 8, 6, 3, NULL},
        {cnn, 3, 8, 6,
         "3x8x6, the model takes 8x6x3 (height, width, channels last): save them as "
         "numpy.moveaxis(x, 1, -1)"},
        {cnn, 6, 8, 3, "save them as numpy.transpose(x, (0, 2, 1, 3))"},
        {cnn, 3, 6, 8, "save them as numpy.transpose(x, (0, 3, 2, 1))"},
        {cnn, 1, 144, 1, "the examples are 144 values, the model takes 8x6x3"},
        {cnn, 1, 144, 1,
         "x.reshape(-1, 8, 6, 3), or numpy.moveaxis(x.reshape(-1, 3, 8, 6), 1, -1)"},
        {cnn, 8, 18, 1, "the examples are 8x18x1"},
        {cnn, 8, 18, 1, "x.reshape(-1, 8, 6, 3)"},
        {cnn, 9, 6, 3,
         "9x6x3, the model takes 8x6x3 (height, width, channels last): change "
         "data.source"},
        {"cnn:8x8x1-4-4-2", 8, 8, 1, NULL},
        {"cnn:8x8x1-4-4-2", 1, 8, 8, "numpy.moveaxis(x, 1, -1)"},
        {"cnn:8x8x1-4-4-2", 1, 64, 1, "save them in an npz file as x.reshape(-1, 8, 8, 1)"},
        // The trainer alone would accept this: its pooling rounds down.
        {"cnn:8x8x1-4-4-2", 9, 9, 1, "9x9x1, the model takes 8x8x1"},
        {"mlp:144-4-2", 8, 6, 3, NULL},
        {"mlp:144-4-2", 1, 144, 1, NULL},
        {"mlp:144-4-2", 1, 143, 1, "the examples are 143 values, the model takes 144 values"},
        {"mlp:784-4-2", 8, 6, 3, "the examples are 8x6x3, the model takes 784 values"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char why[MODEL_FIT_WHY_MAX];
        assert_int_equal(takes(&examples[i], 2, false, why), examples[i].says == NULL);
        assert_says(why, examples[i].says != NULL ? examples[i].says : "");
    }
}

CASE(classes_and_targets_are_compared)
{
    char why[MODEL_FIT_WHY_MAX];
    static const struct example classes = {"mlp:4-4-2", 1, 4, 1, NULL};
    static const struct example number = {"linear:4-1,loss=mse", 1, 4, 1, NULL};
    static const struct example itself = {"mlp:4-2-4,loss=reconstruction", 1, 4, 1, NULL};
    assert_true(takes(&classes, 1, false, why));
    assert_false(takes(&classes, 3, false, why));
    assert_says(why, "predicts 2 classes, the data has 3");
    assert_false(takes(&classes, 1, true, why));
    assert_says(why, "predicts no number: data.source has target=");
    assert_true(takes(&number, 1, true, why));
    assert_false(takes(&number, 2, false, why));
    assert_says(why, "predicts a number: name its column with target=COLUMN");
    assert_true(takes(&itself, 2, false, why));
    assert_false(takes(&itself, 1, true, why));
}
