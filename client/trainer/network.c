#include "trainer/network.h"
#include "tensor/gemm.h"
#include "util/math.h"

#include <string.h>

// --- Outputs that are numbers

// Losses of models whose outputs are numbers. Regression compares one output with the example's target; an autoencoder
// compares as many outputs as the example has values with these (Hinton and Salakhutdinov 2006).

static const float *outputs_of(const struct tern_network *network, uint32_t i)
{
    const float *out = network->layers[network->layer_count - 1].out;
    return out + (size_t)i * network->class_count;
}

// Returns the values that the outputs of example i should have.
static const float *targets_of(const struct tern_network *network, uint32_t i)
{
    return network->loss == TERN_LOSS_RECONSTRUCTION
               ? network->features + (size_t)i * network->feature_count
               : network->targets + i;
}

float tern_numbers_output(const struct tern_network *network, uint32_t i)
{
    return outputs_of(network, i)[0];
}

// NaN outputs give a NaN loss.
double tern_numbers_loss(const struct tern_network *network, uint32_t i)
{
    const float *out = outputs_of(network, i);
    const float *wanted = targets_of(network, i);
    const uint32_t n = network->class_count;
    if (network->loss == TERN_LOSS_MAE) {
        const double off = (double)out[0] - (double)wanted[0];
        return off < 0.0 ? -off : off;
    }
    double sum = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        const double off = (double)out[k] - (double)wanted[k];
        sum += off * off;
    }
    return sum / (double)n;
}

// Returns the slope of |x|, 0 at its corner, NaN for NaN.
static float slope(float x)
{
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

static void numbers_delta(const struct tern_network *network, uint32_t count, float weight,
                          float *delta)
{
    const uint32_t n = network->class_count;
    for (uint32_t i = 0; i < count; i++) {
        const float *out = outputs_of(network, i);
        const float *wanted = targets_of(network, i);
        float *d = delta + (size_t)i * n;
        for (uint32_t k = 0; k < n; k++) {
            const float off = out[k] - wanted[k];
            d[k] = (network->loss == TERN_LOSS_MAE ? slope(off) : 2.0f * off / (float)n) * weight;
        }
    }
}

// --- Convolution layers

// A convolution is computed two output rows at a time: their 3x3 neighbourhoods become rows of a matrix (Chellapilla et al.
// 2006), and the two rows of products are pooled at once. So memory never holds the neighbourhoods of a whole image, nor an
// unpooled image.

// Returns the output pixels of a pair of rows, without an odd last column, which is not pooled.
static size_t pair_width(const struct tern_layer *layer)
{
    return (size_t)layer->width / 2 * 2;
}

// Copies the 3x3 neighbourhood of (y, x), zero outside the image.
static void read_patch(const struct tern_layer *layer, const float *image, size_t y, size_t x,
                       float *patch)
{
    size_t channels = layer->inputs;
    for (size_t row = 0; row < 3; row++, patch += 3 * channels) {
        size_t from_y = y + row; // 1 + the row in the image, so that it cannot be negative
        if (from_y < 1 || from_y > layer->height) {
            memset(patch, 0, 3 * channels * sizeof(float));
            continue;
        }
        const float *line = image + (from_y - 1) * layer->width * channels;
        size_t first = x > 0 ? 0 : 1;
        size_t last = x + 1 < layer->width ? 3 : 2;
        memset(patch, 0, first * channels * sizeof(float));
        memcpy(patch + first * channels, line + (x + first - 1) * channels,
               (last - first) * channels * sizeof(float));
        memset(patch + last * channels, 0, (3 - last) * channels * sizeof(float));
    }
}

// Adds the gradient of a patch to the gradients of the pixels from which the patch was copied.
static void add_patch(const struct tern_layer *layer, float *image, size_t y, size_t x,
                      const float *patch)
{
    size_t channels = layer->inputs;
    for (size_t row = 0; row < 3; row++, patch += 3 * channels) {
        size_t from_y = y + row;
        if (from_y < 1 || from_y > layer->height) {
            continue;
        }
        float *line = image + (from_y - 1) * layer->width * channels;
        size_t first = x > 0 ? 0 : 1;
        size_t last = x + 1 < layer->width ? 3 : 2;
        float *to = line + (x + first - 1) * channels;
        const float *from = patch + first * channels;
        for (size_t i = 0; i < (last - first) * channels; i++) {
            to[i] += from[i];
        }
    }
}

static void read_patches(const struct tern_layer *layer, const float *image, size_t pair,
                         float *patches)
{
    size_t width = pair_width(layer);
    for (size_t pixel = 0; pixel < 2 * width; pixel++) {
        size_t y = 2 * pair + pixel / width;
        read_patch(layer, image, y, pixel % width, patches + pixel * 9 * layer->inputs);
    }
}

// Writes the largest pixel of each 2x2 square, at least 0 (pooling and relu commute), and its index in the square.
static void pool_pair(const struct tern_layer *layer, const float *pixels, float *out,
                      uint8_t *winner)
{
    size_t channels = layer->outputs;
    size_t row = pair_width(layer) * channels;
    for (size_t i = 0; i < row / 2; i++) {
        size_t base = i / channels * 2 * channels + i % channels;
        size_t at[4] = {base, base + channels, base + row, base + row + channels};
        uint8_t best = 0;
        for (uint8_t k = 1; k < 4; k++) {
            best = pixels[at[k]] > pixels[at[best]] ? k : best;
        }
        float peak = pixels[at[best]];
        winner[i] = best;
        out[i] = peak < 0.0f ? 0.0f : peak; // keeps NaN
    }
}

// Reverses pool_pair(): each pooled gradient goes to the largest pixel, the other three get 0.
static void unpool_pair(const struct tern_layer *layer, const float *delta, const uint8_t *winner,
                        float *pixels)
{
    size_t channels = layer->outputs;
    size_t row = pair_width(layer) * channels;
    for (size_t i = 0; i < row / 2; i++) {
        size_t base = i / channels * 2 * channels + i % channels;
        size_t at[4] = {base, base + channels, base + row, base + row + channels};
        for (uint8_t k = 0; k < 4; k++) {
            pixels[at[k]] = winner[i] == k ? delta[i] : 0.0f;
        }
    }
}

static void forward_pair(struct tern_network *network, struct tern_layer *layer,
                         const float *weights, const float *image, size_t example, size_t pair)
{
    size_t width = pair_width(layer);
    size_t depth = 9 * (size_t)layer->inputs;
    for (size_t pixel = 0; pixel < 2 * width; pixel++) {
        memcpy(network->pixels + pixel * layer->outputs, weights + layer->bias,
               layer->outputs * sizeof(float));
    }
    read_patches(layer, image, pair, network->patches);
    tern_gemm_transposed(2 * width, layer->outputs, depth, network->patches, depth,
                         weights + layer->weight, network->panel, network->pixels, layer->outputs);
    size_t at = example * layer->out_size + pair * (width / 2) * layer->outputs;
    pool_pair(layer, network->pixels, layer->out + at, layer->winner + at);
}

static void conv_forward(struct tern_network *network, struct tern_layer *layer,
                         const float *weights, const float *in, uint32_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t pair = 0; pair < layer->height / 2; pair++) {
            forward_pair(network, layer, weights, in + i * layer->in_size, i, pair);
        }
    }
}

// Adds the gradients of weights and bias for a pair of rows, whose output gradient is in network->pixels.
static void backward_weights(const struct tern_network *network, const struct tern_layer *layer,
                             float *gradient)
{
    size_t outputs = layer->outputs;
    size_t count = 2 * pair_width(layer);
    size_t depth = 9 * (size_t)layer->inputs;
    for (size_t pixel = 0; pixel < count; pixel++) {
        for (size_t k = 0; k < outputs; k++) {
            gradient[layer->bias + k] += network->pixels[pixel * outputs + k];
        }
    }
    struct tern_matrix by_output = {network->pixels, 1, outputs};
    tern_gemm(outputs, depth, count, by_output, network->patches, depth, gradient + layer->weight,
              depth);
}

static void backward_input(const struct tern_network *network, const struct tern_layer *layer,
                           const float *weights, size_t pair, float *image_delta)
{
    size_t width = pair_width(layer);
    size_t depth = 9 * (size_t)layer->inputs;
    memset(network->patch_delta, 0, 2 * width * depth * sizeof(float));
    struct tern_matrix by_pixel = {network->pixels, layer->outputs, 1};
    tern_gemm(2 * width, depth, layer->outputs, by_pixel, weights + layer->weight, depth,
              network->patch_delta, depth);
    for (size_t pixel = 0; pixel < 2 * width; pixel++) {
        add_patch(layer, image_delta, 2 * pair + pixel / width, pixel % width,
                  network->patch_delta + pixel * depth);
    }
}

static void conv_backward(struct tern_network *network, const struct tern_layer *layer,
                          const float *weights, const float *in, const float *out_delta,
                          uint32_t count, float *gradient, float *in_delta)
{
    size_t pair_size = pair_width(layer) / 2 * layer->outputs;
    if (in_delta != NULL) {
        memset(in_delta, 0, (size_t)count * layer->in_size * sizeof(float));
    }
    for (size_t i = 0; i < count; i++) {
        const float *image = in + i * layer->in_size;
        for (size_t pair = 0; pair < layer->height / 2; pair++) {
            size_t at = i * layer->out_size + pair * pair_size;
            read_patches(layer, image, pair, network->patches);
            unpool_pair(layer, out_delta + at, layer->winner + at, network->pixels);
            backward_weights(network, layer, gradient);
            if (in_delta != NULL) {
                backward_input(network, layer, weights, pair, in_delta + i * layer->in_size);
            }
        }
    }
}

// --- The network

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

// Returns whether the data has the labels or targets that the loss needs.
static bool data_matches_loss(const struct tern_network *network, const struct tern_dataset *data)
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
    network->loss = model->loss;
    return last->conv || !data_matches_loss(network, data) ? TERN_ERR_MODEL_MISMATCH : TERN_OK;
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
    const enum tern_loss loss = tern_network_loss(network);
    if (loss == TERN_LOSS_MSE || loss == TERN_LOSS_MAE) {
        network->targets = tern_arena_take(arena, chunk, value);
    }
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
        layer->out[i] = layer->out[i] < 0.0f ? 0.0f : layer->out[i]; // keeps NaN
    }
}

void tern_network_forward(struct tern_network *network, const float *weights, uint32_t count)
{
    const float *in = network->features;
    for (uint32_t i = 0; i < network->layer_count; i++) {
        struct tern_layer *layer = &network->layers[i];
        if (tern_layer_is_conv(layer)) {
            conv_forward(network, layer, weights, in, count);
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

// Returns the sum of e^(z - peak), which cannot overflow.
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
    if (tern_network_predicts_numbers(network)) {
        for (uint32_t i = 0; i < count; i++) {
            *loss += tern_numbers_loss(network, i);
        }
        return;
    }
    uint32_t n = network->class_count;
    for (uint32_t i = 0; i < count; i++) {
        const float *z = logits(network) + (size_t)i * n;
        uint32_t best = largest(z, n);
        float sum = exp_sum(z, n, z[best]);
        // A NaN in z must reach the loss; tern_logf() clamps its argument and would hide it.
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

// Writes the gradient with respect to the logits: weight * (softmax - one-hot).
static void loss_delta(const struct tern_network *network, uint32_t count, float weight,
                       float *delta)
{
    if (tern_network_predicts_numbers(network)) {
        numbers_delta(network, count, weight, delta);
        return;
    }
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
            conv_backward(network, layer, weights, in, delta, count, gradient, in_delta);
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
