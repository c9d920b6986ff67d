#include "tensor/gemm.h"
#include "trainer/network.h"
#include <string.h>

// A convolution is computed two output rows at a time: their 3x3 neighbourhoods are laid out as
// rows of a matrix (Chellapilla et al. 2006), and the two rows of products are pooled at once. So
// neither a whole image of neighbourhoods nor an unpooled image is ever held.

// Output pixels of a pair of rows; an odd last column is not pooled and so not computed.
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
        size_t from_y = y + row; // one more than the row in the image
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

// Adds a patch's gradient to the pixels that it was read from.
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

// Largest of each 2x2 square, at least 0 (pooling and relu commute), and which one it was.
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
        out[i] = peak < 0.0f ? 0.0f : peak; // a NaN stays one
    }
}

// The reverse: each pooled gradient goes to the pixel that won, the other three get none.
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

void tern_conv_forward(struct tern_network *network, struct tern_layer *layer, const float *weights,
                       const float *in, uint32_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t pair = 0; pair < layer->height / 2; pair++) {
            forward_pair(network, layer, weights, in + i * layer->in_size, i, pair);
        }
    }
}

// The gradients by weights and bias of one pair of rows whose output gradient is in pixels.
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

void tern_conv_backward(struct tern_network *network, const struct tern_layer *layer,
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
