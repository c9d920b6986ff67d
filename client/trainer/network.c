#include "trainer/network.h"
#include "tensor/gemm.h"
#include "util/math.h"
#include <string.h>

static enum tern_result add_conv(struct tern_layer *layer, const struct tern_tensor *weight,
                                 const struct tern_layer *previous, const struct tern_dataset *data)
{
    layer->height = previous != NULL ? previous->height / 2 : data->height;
    layer->width = previous != NULL ? previous->width / 2 : data->width;
    layer->outputs = weight->dims[0];
    layer->inputs = weight->dims[3];
    uint32_t channels = previous != NULL ? previous->outputs : data->channels;
    bool after_dense = previous != NULL && !previous->conv;
    if (after_dense || weight->dims[1] != 3 || weight->dims[2] != 3 || layer->inputs != channels ||
        layer->height < 2 || layer->width < 2) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    uint64_t pixels = (uint64_t)(layer->height / 2) * (layer->width / 2);
    if (pixels > TERN_MODEL_MAX_VALUES || pixels * layer->outputs > TERN_MODEL_MAX_VALUES) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    layer->in_size = previous != NULL ? previous->out_size : data->feature_count;
    layer->out_size = (uint32_t)pixels * layer->outputs;
    return layer->in_size == layer->height * layer->width * layer->inputs ? TERN_OK
                                                                          : TERN_ERR_MODEL_MISMATCH;
}

static enum tern_result add_dense(struct tern_layer *layer, const struct tern_tensor *weight,
                                  const struct tern_layer *previous,
                                  const struct tern_dataset *data)
{
    layer->outputs = weight->dims[0];
    layer->inputs = weight->dims[1];
    layer->in_size = layer->inputs;
    layer->out_size = layer->outputs;
    uint32_t size = previous != NULL ? previous->out_size : data->feature_count;
    return layer->inputs == size ? TERN_OK : TERN_ERR_MODEL_MISMATCH;
}

// Whether the data has what the outputs are compared with.
static bool data_suits(const struct tern_network *network, const struct tern_dataset *data)
{
    const enum tern_loss loss = tern_network_loss(network);
    if (tern_dataset_targets(data) != NULL) {
        return (loss == TERN_LOSS_MSE || loss == TERN_LOSS_MAE) && network->class_count == 1;
    }
    return loss == TERN_LOSS_RECONSTRUCTION  ? network->class_count == network->feature_count
           : loss == TERN_LOSS_CROSS_ENTROPY ? data->class_count <= network->class_count
                                             : false;
}

enum tern_result tern_network_build(struct tern_network *network, const struct tern_model *model,
                                    const struct tern_dataset *data)
{
    memset(network, 0, sizeof *network);
    if (model->tensor_count == 0 || model->tensor_count % 2 != 0 ||
        model->tensor_count / 2 > TERN_NETWORK_MAX_LAYERS) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    for (uint32_t i = 0; i < model->tensor_count; i += 2) {
        const struct tern_tensor *weight = &model->tensors[i];
        const struct tern_tensor *bias = &model->tensors[i + 1];
        struct tern_layer *layer = &network->layers[network->layer_count];
        const struct tern_layer *previous = i > 0 ? layer - 1 : NULL;
        if ((weight->dim_count != 2 && !(TERN_CONVOLUTIONS && weight->dim_count == 4)) ||
            bias->dim_count != 1 || bias->dims[0] != weight->dims[0]) {
            return TERN_ERR_MODEL_MISMATCH;
        }
        layer->conv = weight->dim_count == 4;
        TERN_TRY(tern_layer_is_conv(layer) ? add_conv(layer, weight, previous, data)
                                           : add_dense(layer, weight, previous, data));
        layer->weight = weight->offset;
        layer->bias = bias->offset;
        network->layer_count++;
    }
    const struct tern_layer *last = &network->layers[network->layer_count - 1];
    network->feature_count = data->feature_count;
    network->class_count = last->outputs;
#if TERN_LOSSES
    network->loss = model->loss;
#endif
    return last->conv || !data_suits(network, data) ? TERN_ERR_MODEL_MISMATCH : TERN_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void tern_network_place(struct tern_network *network, uint32_t chunk, struct tern_arena *arena)
{
    const size_t value = sizeof(float);
    size_t widest = 0;
    size_t panel = 0;
    size_t row = 0;   // pixels of a pair of rows
    size_t patch = 0; // values of a neighbourhood
    size_t outputs = 0;
    network->chunk = chunk;
    network->features = tern_arena_take(arena, chunk, network->feature_count * value);
    network->labels = tern_arena_take(arena, chunk, sizeof *network->labels);
#if TERN_LOSSES
    if (network->loss == TERN_LOSS_MSE || network->loss == TERN_LOSS_MAE) {
        network->targets = tern_arena_take(arena, chunk, value);
    }
#endif
    for (uint32_t i = 0; i < network->layer_count; i++) {
        struct tern_layer *layer = &network->layers[i];
        layer->out = tern_arena_take(arena, chunk, layer->out_size * value);
        widest = larger(widest, layer->out_size);
        size_t depth = tern_layer_is_conv(layer) ? 9 * (size_t)layer->inputs : layer->inputs;
        panel = larger(panel, tern_gemm_scratch(depth));
        if (tern_layer_is_conv(layer)) {
            layer->winner = tern_arena_take(arena, chunk, layer->out_size);
            row = larger(row, 2 * (size_t)layer->width);
            patch = larger(patch, depth);
            outputs = larger(outputs, layer->outputs);
        }
    }
    network->delta[0] = tern_arena_take(arena, chunk, widest * value);
    network->delta[1] = tern_arena_take(arena, chunk, widest * value);
    network->panel = tern_arena_take(arena, panel, value);
    network->patches = tern_arena_take(arena, row, patch * value);
    network->patch_delta = tern_arena_take(arena, row, patch * value);
    network->pixels = tern_arena_take(arena, row, outputs * value);
}

static void dense_forward(struct tern_network *network, const struct tern_layer *layer,
                          const float *weights, const float *in, uint32_t count, bool relu)
{
    size_t size = layer->outputs;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(layer->out + i * size, weights + layer->bias, size * sizeof(float));
    }
    tern_gemm_transposed(count, size, layer->inputs, in, layer->inputs, weights + layer->weight,
                         network->panel, layer->out, size);
    if (!relu) {
        return;
    }
    for (size_t i = 0; i < count * size; i++) {
        layer->out[i] = layer->out[i] < 0.0f ? 0.0f : layer->out[i]; // a NaN stays one
    }
}

void tern_network_forward(struct tern_network *network, const float *weights, uint32_t count)
{
    const float *in = network->features;
    for (uint32_t i = 0; i < network->layer_count; i++) {
        struct tern_layer *layer = &network->layers[i];
        if (tern_layer_is_conv(layer)) {
            tern_conv_forward(network, layer, weights, in, count);
        } else {
            dense_forward(network, layer, weights, in, count, i + 1 < network->layer_count);
        }
        in = layer->out;
    }
}

static const float *logits(const struct tern_network *network)
{
    return network->layers[network->layer_count - 1].out;
}

static uint32_t largest(const float *z, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < n; k++) {
        best = z[k] > z[best] ? k : best;
    }
    return best;
}

// Sum of e^(z - peak), which no z can overflow.
static float exp_sum(const float *z, uint32_t n, float peak)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < n; k++) {
        sum += tern_expf(z[k] - peak);
    }
    return sum;
}

void tern_network_score(const struct tern_network *network, uint32_t count, double *loss,
                        uint32_t *right)
{
#if TERN_LOSSES
    if (tern_network_tells_numbers(network)) {
        for (uint32_t i = 0; i < count; i++) {
            *loss += tern_numbers_loss(network, i);
        }
        return;
    }
#endif
    uint32_t n = network->class_count;
    for (uint32_t i = 0; i < count; i++) {
        const float *z = logits(network) + (size_t)i * n;
        uint32_t best = largest(z, n);
        float sum = exp_sum(z, n, z[best]);
        // A NaN anywhere in z must reach the loss; log clamps its argument and would hide it.
        *loss +=
            sum > 0.0f ? (double)(tern_logf(sum) - (z[network->labels[i]] - z[best])) : (double)sum;
        *right += best == network->labels[i];
    }
}

uint16_t tern_network_answer(const struct tern_network *network, uint32_t i)
{
    const uint32_t n = network->class_count;
    return (uint16_t)largest(logits(network) + (size_t)i * n, n);
}

float tern_network_probability(const struct tern_network *network, uint32_t i, uint16_t label)
{
    const uint32_t n = network->class_count;
    const float *z = logits(network) + (size_t)i * n;
    const float peak = z[largest(z, n)];
    return tern_expf(z[label] - peak) / exp_sum(z, n, peak);
}

// The gradient by the logits: weight * (softmax - one-hot).
static void loss_delta(const struct tern_network *network, uint32_t count, float weight,
                       float *delta)
{
#if TERN_LOSSES
    if (tern_network_tells_numbers(network)) {
        tern_numbers_delta(network, count, weight, delta);
        return;
    }
#endif
    uint32_t n = network->class_count;
    for (uint32_t i = 0; i < count; i++) {
        const float *z = logits(network) + (size_t)i * n;
        float *d = delta + (size_t)i * n;
        float peak = z[largest(z, n)];
        float sum = exp_sum(z, n, peak);
        for (uint32_t k = 0; k < n; k++) {
            float target = k == network->labels[i] ? 1.0f : 0.0f;
            d[k] = (tern_expf(z[k] - peak) / sum - target) * weight;
        }
    }
}

static void dense_backward(const struct tern_layer *layer, const float *weights, const float *in,
                           const float *delta, uint32_t count, float *gradient, float *in_delta)
{
    size_t size = layer->outputs;
    for (uint32_t i = 0; i < count; i++) {
        for (size_t k = 0; k < size; k++) {
            gradient[layer->bias + k] += delta[i * size + k];
        }
    }
    struct tern_matrix by_output = {delta, 1, size};
    tern_gemm(size, layer->inputs, count, by_output, in, layer->inputs, gradient + layer->weight,
              layer->inputs);
    if (in_delta == NULL) {
        return;
    }
    struct tern_matrix by_example = {delta, size, 1};
    memset(in_delta, 0, (size_t)count * layer->inputs * sizeof(float));
    tern_gemm(count, layer->inputs, size, by_example, weights + layer->weight, layer->inputs,
              in_delta, layer->inputs);
}

static void relu_backward(const float *out, size_t size, float *delta)
{
    for (size_t i = 0; i < size; i++) {
        delta[i] = out[i] > 0.0f ? delta[i] : 0.0f;
    }
}

void tern_network_backward(struct tern_network *network, const float *weights, uint32_t count,
                           float weight, float *gradient)
{
    float *delta = network->delta[0];
    float *next = network->delta[1];
    loss_delta(network, count, weight, delta);
    for (uint32_t i = network->layer_count; i-- > 0;) {
        const struct tern_layer *layer = &network->layers[i];
        const float *in = i > 0 ? layer[-1].out : network->features;
        float *in_delta = i > 0 ? next : NULL;
        if (tern_layer_is_conv(layer)) {
            tern_conv_backward(network, layer, weights, in, delta, count, gradient, in_delta);
        } else {
            dense_backward(layer, weights, in, delta, count, gradient, in_delta);
        }
        if (i > 0) {
            relu_backward(in, (size_t)count * layer->in_size, next);
        }
        next = delta;
        delta = in_delta;
    }
}
