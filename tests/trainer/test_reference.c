// The built-in models and their batches against the vectors of training.txt, which tests/reference
// makes from docs/FORMAT.md alone.
#include "shared/vectors.h"
#include "tests/cases.h"
#include "trainer/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLES_MAX 16

static struct vectors v;

// --- Models

// One example with the shape that the spec names first: F, or HxWxD.
static struct tern_dataset dataset_of(const char *spec, const struct tern_model *model,
                                      const float *inputs, const uint16_t *label)
{
    char *at = strchr(spec, ':') + 1;
    const uint32_t first = (uint32_t)strtoul(at, &at, 10);
    struct tern_dataset data = {.count = 1,
                                .height = 1,
                                .width = first,
                                .channels = 1,
                                .class_count = model->tensors[model->tensor_count - 1].dims[0],
                                .values = inputs,
                                .labels = label};
    if (*at == 'x') {
        data.height = first;
        data.width = (uint32_t)strtoul(at + 1, &at, 10);
        data.channels = (uint32_t)strtoul(at + 1, &at, 10);
    }
    data.feature_count = data.height * data.width * data.channels;
    return data;
}

static void check_example(const char *spec, const float *weights, const float *inputs,
                          uint16_t label, float loss, uint16_t answer)
{
    struct tern_model model;
    struct setup setup;
    struct tern_evaluate_result result;
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    const struct tern_dataset data = dataset_of(spec, &model, inputs, &label);
    setup_make(&setup, spec, tern_view_all(&data), tern_view_all(&data), 1);
    assert_int_equal(setup.trainer.evaluate(setup.trainer.ctx, weights, setup.model.count, &result),
                     TERN_OK);
    assert_float_equal(result.loss, loss, 2e-6F * (1 + loss));
    assert_true(result.accuracy == (answer == label ? 1.0F : 0.0F));
    setup_free(&setup);
}

CASE(models_compute_what_is_documented)
{
    static float weights[VECTOR_VALUES_MAX];
    static float inputs[VECTOR_VALUES_MAX];
    char spec[64] = "";
    uint16_t label = 0;
    unsigned examples = 0;
    vectors_open(&v, "training.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "network") == 0) {
            snprintf(spec, sizeof spec, "%s", vectors_word(&v));
        } else if (strcmp(v.key, "weights") == 0) {
            vectors_floats(&v, weights);
        } else if (strcmp(v.key, "example") == 0) {
            label = (uint16_t)vectors_number(&v);
        } else if (strcmp(v.key, "inputs") == 0) {
            vectors_floats(&v, inputs);
        } else if (strcmp(v.key, "expected") == 0) {
            const float loss = strtof(vectors_word(&v), NULL);
            check_example(spec, weights, inputs, label, loss, (uint16_t)vectors_number(&v));
            examples++;
        }
    }
    assert_int_equal(examples, 16);
}

// --- Numbers

#define ITEMS 8

// Examples of a model that tells numbers, and what comes of them.
struct items {
    char spec[64];
    struct tern_model model;
    float weights[VECTOR_VALUES_MAX];
    float inputs[ITEMS][EXAMPLES_MAX * EXAMPLES_MAX];
    float rows[ITEMS * EXAMPLES_MAX * EXAMPLES_MAX]; // without gaps
    float targets[ITEMS];
    uint16_t labels[ITEMS];
    float losses[ITEMS];
    float outputs[ITEMS];
    uint32_t count;
};

static float metric(const struct tern_evaluate_result *result, const char *name)
{
    for (uint32_t i = 0; i < result->metric_count; i++) {
        if (strcmp(result->metrics[i].name, name) == 0) {
            return result->metrics[i].value;
        }
    }
    fail_msg("no metric %s", name);
    return 0;
}

static struct tern_dataset dataset_of_items(struct items *items)
{
    struct tern_dataset data = dataset_of(items->spec, &items->model, items->rows, items->labels);
    for (uint32_t i = 0; i < items->count; i++) {
        memcpy(items->rows + i * data.feature_count, items->inputs[i],
               data.feature_count * sizeof(float));
    }
    data.count = items->count;
    data.class_count = 3;
    data.target_deviation = 10.0F;
    data.target_mean = 100.0F;
    if (items->model.loss != TERN_LOSS_RECONSTRUCTION) {
        data.targets = items->targets;
        memset(items->labels, 0, sizeof items->labels);
    }
    return data;
}

static void check_told(struct items *items, struct setup *setup)
{
    float told[ITEMS];
    float threshold;
    assert_int_equal(tern_builtin_trainer_numbers(&setup->state, items->weights, items->model.count,
                                                  told, &threshold),
                     TERN_OK);
    for (uint32_t i = 0; i < items->count; i++) {
        const float expected = items->model.loss == TERN_LOSS_RECONSTRUCTION
                                   ? items->losses[i]
                                   : 100 + 10 * items->outputs[i];
        assert_float_equal(told[i], expected, 1e-4F);
    }
}

static void check_regression(const struct items *items, const struct tern_evaluate_result *found)
{
    double squares = 0;
    double distances = 0;
    double loss = 0;
    double mean = 0;
    double spread = 0;
    for (uint32_t i = 0; i < items->count; i++) {
        const double off = (double)items->outputs[i] - (double)items->targets[i];
        squares += off * off / items->count;
        distances += fabs(off) / items->count;
        loss += (double)items->losses[i] / items->count;
        mean += (double)items->targets[i] / items->count;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        const double away = (double)items->targets[i] - mean;
        spread += away * away / items->count;
    }
    assert_float_equal(found->loss, (float)loss, 1e-5F);
    assert_float_equal(metric(found, "mse"), (float)(100 * squares), 1e-3F);
    assert_float_equal(metric(found, "mae"), (float)(10 * distances), 1e-4F);
    assert_float_equal(metric(found, "r2"), (float)(1 - squares / spread), 1e-5F);
}

static void check_anomalies(const struct items *items, const struct tern_evaluate_result *found)
{
    const float auc = strtof(vectors_word(&v), NULL);
    const float threshold = strtof(vectors_word(&v), NULL);
    const uint32_t flagged = vectors_number(&v);
    double loss = 0;
    uint32_t normal = 0;
    uint32_t right = 0;
    for (uint32_t i = 0; i < items->count; i++) {
        loss += items->labels[i] == 0 ? (double)items->losses[i] : 0;
        normal += items->labels[i] == 0;
        right += items->labels[i] != 0 && items->losses[i] > threshold;
    }
    assert_float_equal(found->loss, (float)(loss / normal), 1e-5F);
    assert_float_equal(metric(found, "auc"), auc, 1e-6F);
    assert_float_equal(metric(found, "threshold"), threshold, 1e-5F);
    assert_float_equal(metric(found, "flagged"), (float)flagged / (float)items->count, 1e-6F);
    assert_float_equal(metric(found, "f1"),
                       2.0F * (float)right / (float)(flagged + items->count - normal), 1e-6F);
}

static void check_items(struct items *items)
{
    struct setup setup;
    struct tern_evaluate_result found;
    const struct tern_dataset data = dataset_of_items(items);
    setup_make(&setup, items->spec, tern_view_all(&data), tern_view_all(&data), 3);
    setup.state.anomaly_quantile = 0.75F;
    assert_int_equal(
        setup.trainer.evaluate(setup.trainer.ctx, items->weights, items->model.count, &found),
        TERN_OK);
    assert_true(found.no_accuracy);
    assert_int_equal(found.num_examples, ITEMS);
    if (items->model.loss == TERN_LOSS_RECONSTRUCTION) {
        check_anomalies(items, &found);
    } else {
        check_regression(items, &found);
    }
    check_told(items, &setup);
    setup_free(&setup);
}

static void read_item(struct items *items)
{
    static float values[VECTOR_VALUES_MAX];
    if (strcmp(v.key, "numbers") == 0) {
        memset(items, 0, sizeof *items);
        snprintf(items->spec, sizeof items->spec, "%s", vectors_word(&v));
        assert_int_equal(tern_model_from_spec(&items->model, items->spec), TERN_OK);
    } else if (strcmp(v.key, "weights") == 0) {
        vectors_floats(&v, items->weights);
    } else if (strcmp(v.key, "item") == 0) {
        assert_in_range(items->count, 0, ITEMS - 1);
        items->labels[items->count] = (uint16_t)vectors_number(&v);
        vectors_floats(&v, values);
        items->targets[items->count++] = values[0];
    } else if (strcmp(v.key, "inputs") == 0 && items->count > 0) {
        const size_t count = vectors_floats(&v, values);
        memcpy(items->inputs[items->count - 1], values, count * sizeof *values);
    } else if (strcmp(v.key, "loss") == 0) {
        items->losses[items->count - 1] = strtof(vectors_word(&v), NULL);
        items->outputs[items->count - 1] = strtof(vectors_word(&v), NULL);
    }
}

CASE(numbers_are_told_as_documented)
{
    static struct items items;
    unsigned models = 0;
    vectors_open(&v, "training.txt");
    while (vectors_next(&v)) {
        read_item(&items);
        if (strcmp(v.key, "figures") == 0) {
            check_items(&items);
            models++;
        }
    }
    assert_int_equal(models, 4);
}

// --- Batches

// Softmax regression in which example i alone has feature i, so that a step moves the weights of
// its batch's examples and no others.
struct told_apart {
    uint32_t count;
    float features[EXAMPLES_MAX * EXAMPLES_MAX];
    uint16_t labels[EXAMPLES_MAX];
    struct tern_dataset data;
    struct tern_train_task task;
    char spec[32];
};

static void report_apart(struct told_apart *apart)
{
    memset(apart, 0, sizeof *apart);
    apart->task = (struct tern_train_task){.learning_rate = 0.01F};
    apart->task.seed = strtoull(vectors_word(&v), NULL, 10);
    apart->task.round = vectors_number(&v);
    // Streams are named by the lower half of an id.
    apart->task.client = (uint32_t)strtoull(vectors_word(&v), NULL, 10);
    apart->count = vectors_number(&v);
    apart->task.batch_size = vectors_number(&v);
    assert_in_range(apart->count, 1, EXAMPLES_MAX);
    for (uint32_t i = 0; i < apart->count; i++) {
        apart->features[i * apart->count + i] = 1.0F;
    }
    apart->data = (struct tern_dataset){.count = apart->count,
                                        .feature_count = apart->count,
                                        .class_count = 2,
                                        .height = 1,
                                        .width = apart->count,
                                        .channels = 1,
                                        .values = apart->features,
                                        .labels = apart->labels};
    snprintf(apart->spec, sizeof apart->spec, "softmax:%u-2", apart->count);
}

// The first class's weight of each example after that many steps; without any, as they began.
static void weights_after(struct told_apart *apart, uint32_t steps, float *weights)
{
    struct setup setup;
    struct tern_train_result result;
    setup_make(&setup, apart->spec, tern_view_all(&apart->data), tern_view_all(&apart->data), 4);
    const float *trained = setup.base;
    if (steps > 0) {
        apart->task.local_steps = steps;
        trained = setup_train(&setup, &apart->task, setup.base, &result);
    }
    memcpy(weights, trained + setup.model.tensors[0].offset, apart->count * sizeof *weights);
    setup_free(&setup);
}

static void check_step(struct told_apart *apart, uint32_t step)
{
    float before[EXAMPLES_MAX];
    float after[EXAMPLES_MAX];
    bool moves[EXAMPLES_MAX] = {false};
    while (*v.rest != '\0') {
        moves[vectors_number(&v)] = true;
    }
    weights_after(apart, step - 1, before);
    weights_after(apart, step, after);
    for (uint32_t i = 0; i < apart->count; i++) {
        assert_int_equal(before[i] != after[i], moves[i]);
    }
}

CASE(batches_are_drawn_as_documented)
{
    struct told_apart apart;
    uint32_t step = 0;
    unsigned steps = 0;
    vectors_open(&v, "training.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "batches") == 0) {
            report_apart(&apart);
            step = 0;
        } else if (strcmp(v.key, "step") == 0) {
            check_step(&apart, ++step);
            steps++;
        }
    }
    assert_int_equal(steps, 54);
}
