#include "cli/model_fit.h"
#include "trainer/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OTHER_DATA                                                                                 \
    "change data.source, or create the federation again for this data (tern-aggregator init "      \
    "--data; "                                                                                     \
    "--drop leaves out columns)"
#define SHAPE_MAX 40

// Height, width and channels of an image. A row of a table is 1 x columns x 1.
struct shape {
    uint32_t dims[3];
};

static bool is_flat(const struct shape *shape)
{
    return shape->dims[0] == 1 && shape->dims[2] == 1;
}

static struct shape shape_of_model(const char *spec)
{
    struct shape shape;
    if (sscanf(spec, "cnn:%" SCNu32 "x%" SCNu32 "x%" SCNu32, &shape.dims[0], &shape.dims[1],
               &shape.dims[2]) != 3) {
        shape = (struct shape){{1, tern_model_spec_inputs(spec), 1}};
    }
    return shape;
}

static const char *shape_text(const struct shape *shape, char text[SHAPE_MAX])
{
    if (is_flat(shape)) {
        snprintf(text, SHAPE_MAX, "%" PRIu32 " values", shape->dims[1]);
    } else {
        snprintf(text, SHAPE_MAX, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, shape->dims[0],
                 shape->dims[1], shape->dims[2]);
    }
    return text;
}

// Writes the NumPy call that puts the data's axes into the order that the model needs. Returns false if no order fits.
static bool find_axis_order(const struct shape *have, const struct shape *want, char text[64])
{
    // The first order is the most likely one: channels before height and width.
    static const uint8_t orders[][3] = {{1, 2, 0}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {2, 0, 1}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        const uint8_t *order = orders[i];
        if (have->dims[order[0]] == want->dims[0] && have->dims[order[1]] == want->dims[1] &&
            have->dims[order[2]] == want->dims[2]) {
            snprintf(text, 64,
                     i == 0 ? "numpy.moveaxis(x, 1, -1)" : "numpy.transpose(x, (0, %u, %u, %u))",
                     order[0] + 1u, order[1] + 1u, order[2] + 1u);
            return true;
        }
    }
    return false;
}

// Writes advice for examples that have the number of values that the model needs, but another shape.
static void advise_reshape(const struct shape *have, const struct shape *want, char text[192])
{
    char turn[64];
    const uint32_t *dims = want->dims;
    if (!is_flat(have) && find_axis_order(have, want, turn)) {
        snprintf(text, 192, "save them as %s", turn);
        return;
    }
    snprintf(text, 192,
             "save them in an npz file as x.reshape(-1, %" PRIu32 ", %" PRIu32 ", %" PRIu32 ")",
             dims[0], dims[1], dims[2]);
    if (dims[2] > 1) {
        const size_t used = strlen(text);
        snprintf(text + used, 192 - used,
                 ", or numpy.moveaxis(x.reshape(-1, %" PRIu32 ", %" PRIu32 ", %" PRIu32
                 "), 1, -1) where channels come first",
                 dims[2], dims[0], dims[1]);
    }
}

static bool shape_fits(const char *spec, const struct tern_dataset *data,
                       char why[MODEL_FIT_WHY_MAX])
{
    char theirs[SHAPE_MAX];
    char ours[SHAPE_MAX];
    char advice[192] = OTHER_DATA;
    const struct shape have = {{data->height, data->width, data->channels}};
    const struct shape want = shape_of_model(spec);
    const bool as_many = tern_model_spec_inputs(spec) == data->feature_count;
    if (as_many && (is_flat(&want) || memcmp(&have, &want, sizeof have) == 0)) {
        return true;
    }
    if (as_many) {
        advise_reshape(&have, &want, advice);
    }
    snprintf(why, MODEL_FIT_WHY_MAX, "%.120s: the examples are %s, the model takes %s%s: %s", spec,
             shape_text(&have, theirs), shape_text(&want, ours),
             is_flat(&want) ? "" : " (height, width, channels last)", advice);
    return false;
}

static bool answers_fit(const char *spec, const struct tern_model *model,
                        const struct tern_dataset *data, char why[MODEL_FIT_WHY_MAX])
{
    const bool predicts_number = model->loss == TERN_LOSS_MSE || model->loss == TERN_LOSS_MAE;
    const uint32_t classes = model->tensors[model->tensor_count - 1].count;
    if (predicts_number && data->targets == NULL) {
        snprintf(why, MODEL_FIT_WHY_MAX,
                 "%.120s predicts a number: name its column with target=COLUMN in data.source, in "
                 "place of label=",
                 spec);
        return false;
    }
    if (!predicts_number && data->targets != NULL) {
        snprintf(why, MODEL_FIT_WHY_MAX,
                 "%.120s predicts no number: data.source has target=, which is for models with "
                 "loss=mse or mae",
                 spec);
        return false;
    }
    if (model->loss == TERN_LOSS_CROSS_ENTROPY && data->class_count > classes) {
        snprintf(why, MODEL_FIT_WHY_MAX,
                 "%.120s predicts %" PRIu32 " classes, the data has %" PRIu32 ": " OTHER_DATA, spec,
                 classes, data->class_count);
        return false;
    }
    return true;
}

bool tern_model_accepts(const char *spec, const struct tern_model *model,
                        const struct tern_dataset *data, char why[MODEL_FIT_WHY_MAX])
{
    if (!answers_fit(spec, model, data, why) || !shape_fits(spec, data, why)) {
        return false;
    }
    const struct tern_builtin_config config = {
        .model = model, .train = tern_view_all(data), .max_batch = 1};
    // The trainer checks the data again, and refuses what the checks above have missed.
    if (data->count > 0 && tern_builtin_trainer_bound(&config) == 0) {
        snprintf(why, MODEL_FIT_WHY_MAX, "%.120s does not take examples of this kind: " OTHER_DATA,
                 spec);
        return false;
    }
    return true;
}
