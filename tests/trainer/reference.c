#include "trainer/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct image {
    size_t height, width, channels;
    double values[4096];
};

static double pixel(const struct image *image, long y, long x, size_t c)
{
    if (y < 0 || x < 0 || y >= (long)image->height || x >= (long)image->width) {
        return 0.0;
    }
    return image->values[((size_t)y * image->width + (size_t)x) * image->channels + c];
}

static double conv_at(const struct image *in, const double *kernel, size_t y, size_t x)
{
    double sum = 0.0;
    for (size_t i = 0; i < 9 * in->channels; i++) {
        size_t tap = i / in->channels;
        long from_y = (long)y + (long)(tap / 3) - 1;
        long from_x = (long)x + (long)(tap % 3) - 1;
        sum += kernel[i] * pixel(in, from_y, from_x, i % in->channels);
    }
    return sum;
}

static void conv(struct image *image, const double *kernels, const double *bias, size_t outputs)
{
    struct image *in = malloc(sizeof *in);
    memcpy(in, image, sizeof *in);
    *image = (struct image){in->height / 2, in->width / 2, outputs, {0}};
    for (size_t i = 0; i < image->height * image->width * outputs; i++) {
        size_t o = i % outputs;
        size_t x = i / outputs % image->width;
        size_t y = i / outputs / image->width;
        double best = 0.0; // relu
        for (size_t k = 0; k < 4; k++) {
            double value =
                conv_at(in, kernels + o * 9 * in->channels, 2 * y + k / 2, 2 * x + k % 2);
            best = fmax(best, value + bias[o]);
        }
        image->values[i] = best;
    }
    free(in);
}

static void dense(struct image *image, const double *weights, const double *bias, size_t outputs,
                  size_t inputs, int relu)
{
    double out[256] = {0};
    for (size_t o = 0; o < outputs; o++) {
        out[o] = bias[o];
        for (size_t i = 0; i < inputs; i++) {
            out[o] += weights[o * inputs + i] * image->values[i];
        }
        out[o] = relu ? fmax(out[o], 0.0) : out[o];
    }
    memcpy(image->values, out, outputs * sizeof *out);
}

static double squares(const double *out, const double *wanted, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (out[i] - wanted[i]) * (out[i] - wanted[i]);
    }
    return sum / (double)count;
}

static double cross_entropy(const double *out, size_t classes, uint16_t label)
{
    double sum = exp(out[0]);
    for (size_t k = 1; k < classes; k++) {
        sum += exp(out[k]);
    }
    return log(sum) - out[label];
}

static double example_loss(const struct tern_model *model, const double *weights,
                           const struct tern_dataset *data, size_t example)
{
    struct image image = {data->height, data->width, data->channels, {0}};
    double features[sizeof image.values / sizeof image.values[0]];
    size_t outputs = model->tensors[model->tensor_count - 1].count;
    for (size_t i = 0; i < data->feature_count; i++) {
        double byte = (double)data->bytes[example * data->feature_count + i];
        image.values[i] = byte * (double)data->scale + (double)data->offset;
        features[i] = image.values[i];
    }
    for (size_t i = 0; i < model->tensor_count; i += 2) {
        const struct tern_tensor *w = &model->tensors[i];
        const double *bias = weights + model->tensors[i + 1].offset;
        if (w->dim_count == 4) {
            conv(&image, weights + w->offset, bias, w->dims[0]);
        } else {
            dense(&image, weights + w->offset, bias, w->dims[0], w->dims[1],
                  i + 2 < model->tensor_count);
        }
    }
    const float *targets = tern_dataset_targets(data);
    const double target = targets != NULL ? (double)targets[example] : 0.0;
    switch (tern_model_loss(model)) {
    case TERN_LOSS_MSE:
        return squares(image.values, &target, 1);
    case TERN_LOSS_MAE:
        return fabs(image.values[0] - target);
    case TERN_LOSS_RECONSTRUCTION:
        return squares(image.values, features, data->feature_count);
    case TERN_LOSS_CROSS_ENTROPY:
    case TERN_LOSS_COUNT:
    default:
        return cross_entropy(image.values, outputs, data->labels[example]);
    }
}

double reference_loss(const struct tern_model *model, const double *weights,
                      const struct tern_dataset *data)
{
    double loss = 0.0;
    for (size_t i = 0; i < data->count; i++) {
        loss += example_loss(model, weights, data, i);
    }
    return loss / (double)data->count;
}
