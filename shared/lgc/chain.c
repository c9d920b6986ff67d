#include "lgc/chain.h"
#include "tensor/gemm.h"
#include <string.h>

#define SLOPE 0.01f // of the leaky relu below 0 (He et al. 2015)
#define BLOCK                                                                                      \
    128 // positions whose rows stay in the cache while the gradients of all weights are summed

// --- Sequences of all layers

static size_t positions_after(const struct tern_autoencoder_layer *layer, size_t positions)
{
    return layer->transposed ? positions * layer->stride : positions / layer->stride;
}

// Takes a sequence and the zeros around it; returns where its first position is.
static float *take_sequence(struct tern_arena *arena, size_t positions, size_t channels)
{
    float *start = tern_arena_take(arena, positions + 2, channels * sizeof(float));
    return start != NULL ? start + channels : NULL;
}

static void clear_sequence(float *first, size_t positions, size_t channels)
{
    memset(first - channels, 0, (positions + 2) * channels * sizeof(float));
}

// The zeros alone.
static void clear_ends(float *first, size_t positions, size_t channels)
{
    memset(first - channels, 0, channels * sizeof(float));
    memset(first + positions * channels, 0, channels * sizeof(float));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// Columns of the matrix that gather() multiplies with.
static size_t row_length(const struct tern_autoencoder_layer *layer)
{
    return (size_t)layer->width * (layer->transposed ? layer->outputs : layer->inputs);
}

void tern_chain_place(struct tern_chain *chain, const struct tern_autoencoder_layer *layers,
                      uint32_t layer_count, size_t positions, bool backward,
                      struct tern_arena *arena)
{
    *chain =
        (struct tern_chain){.layers = layers, .layer_count = layer_count, .positions = positions};
    chain->in = take_sequence(arena, positions, layers[0].inputs);
    size_t widest = (positions + 2) * layers[0].inputs;
    size_t panel = 0;
    for (uint32_t i = 0; i < layer_count; i++) {
        positions = positions_after(&layers[i], positions);
        chain->out[i] = take_sequence(arena, positions, layers[i].outputs);
        widest = larger(widest, (positions + 2) * layers[i].outputs);
        panel = larger(panel, tern_gemm_scratch(row_length(&layers[i])));
    }
    for (int i = 0; i < 2 && backward; i++) {
        chain->delta[i] = tern_arena_take(arena, widest, sizeof(float));
    }
    chain->panel = tern_arena_take(arena, panel, sizeof(float));
}

// --- One convolution, seen from its shorter side: the outputs of a convolution, the inputs of a transposed one. Its
// weights are [channels there][width][channels of the longer side].

struct taps {
    const float *weights;
    size_t width;
    size_t stride;
    size_t positions; // of the shorter side
    size_t channels;  // of the shorter side
    size_t longer;    // channels of the longer side
};

static struct taps taps_of(const struct tern_autoencoder_layer *layer, const float *weights,
                           size_t in_positions)
{
    const bool transposed = layer->transposed;
    return (struct taps){
        .weights = weights + layer->offset,
        .width = layer->width,
        .stride = layer->stride,
        .positions = transposed ? in_positions : positions_after(layer, in_positions),
        .channels = transposed ? layer->inputs : layer->outputs,
        .longer = transposed ? layer->outputs : layer->inputs,
    };
}

// Where the row of the longer side begins that position 0 of the shorter one looks at.
static const float *first_row(const struct taps *taps, const float *longer)
{
    return longer - taps->width / 2 * taps->longer;
}

// shorter[t] += weights * longer[stride * t - 1 .. stride * t + 1]
static void gather(const struct taps *taps, const float *longer, float *panel, float *shorter)
{
    tern_gemm_transposed(taps->positions, taps->channels, taps->width * taps->longer,
                         first_row(taps, longer), taps->stride * taps->longer, taps->weights, panel,
                         shorter, taps->channels);
}

// The adjoint: longer[stride * t - 1 .. stride * t + 1] += weights transposed * shorter[t], one of the three after the
// other, as no two rows of a product may overlap. What falls on the zeros before and behind is for the caller to clear.
static void spread(const struct taps *taps, const float *shorter, float *longer)
{
    const struct tern_matrix a = {shorter, taps->channels, 1};
    for (size_t k = 0; k < taps->width; k++) {
        tern_gemm(taps->positions, taps->longer, taps->channels, a,
                  taps->weights + k * taps->longer, taps->width * taps->longer,
                  longer + (k * taps->longer) - (taps->width / 2 * taps->longer),
                  taps->stride * taps->longer);
    }
}

// gradient[channel][width * longer] += the sum over t of shorter[t][channel] * the row that it looks at
static void add_gradient(const struct taps *taps, const float *shorter, const float *longer,
                         float *gradient)
{
    const size_t columns = taps->width * taps->longer;
    const size_t step = taps->stride * taps->longer;
    for (size_t t = 0; t < taps->positions; t += BLOCK) {
        const size_t count = taps->positions - t < BLOCK ? taps->positions - t : BLOCK;
        const struct tern_matrix a = {shorter + t * taps->channels, 1, taps->channels};
        tern_gemm(taps->channels, columns, count, a, first_row(taps, longer) + t * step, step,
                  gradient, columns);
    }
}

static size_t bias_offset(const struct tern_autoencoder_layer *layer)
{
    return layer->offset + (size_t)layer->width * layer->inputs * layer->outputs;
}

// --- Forwards

static void forward_layer(const struct tern_autoencoder_layer *layer, const float *weights,
                          const float *in, size_t in_positions, float *panel, float *out)
{
    const struct taps taps = taps_of(layer, weights, in_positions);
    const size_t positions = positions_after(layer, in_positions);
    for (size_t t = 0; t < positions; t++) {
        memcpy(out + t * layer->outputs, weights + bias_offset(layer),
               layer->outputs * sizeof(float));
    }
    if (layer->transposed) {
        spread(&taps, in, out);
    } else {
        gather(&taps, in, panel, out);
    }
    clear_ends(out, positions, layer->outputs);
}

static void leaky_relu(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] < 0.0f ? SLOPE * values[i] : values[i]; // a NaN stays one
    }
}

void tern_chain_forward(struct tern_chain *chain, const float *weights)
{
    const float *in = chain->in;
    size_t positions = chain->positions;
    clear_ends(chain->in, positions, chain->layers[0].inputs);
    for (uint32_t i = 0; i < chain->layer_count; i++) {
        const struct tern_autoencoder_layer *layer = &chain->layers[i];
        forward_layer(layer, weights, in, positions, chain->panel, chain->out[i]);
        in = chain->out[i];
        positions = positions_after(layer, positions);
        if (i + 1 < chain->layer_count) {
            leaky_relu(chain->out[i], positions * layer->outputs);
        }
    }
}

float *tern_chain_output(const struct tern_chain *chain)
{
    return chain->out[chain->layer_count - 1];
}

size_t tern_chain_out_positions(const struct tern_chain *chain)
{
    size_t positions = chain->positions;
    for (uint32_t i = 0; i < chain->layer_count; i++) {
        positions = positions_after(&chain->layers[i], positions);
    }
    return positions;
}

// --- Backwards

float *tern_chain_output_delta(const struct tern_chain *chain)
{
    return chain->delta[0] + chain->layers[chain->layer_count - 1].outputs;
}

static void leaky_relu_backward(const float *out, size_t count, float *delta)
{
    for (size_t i = 0; i < count; i++) {
        delta[i] = out[i] > 0.0f ? delta[i] : SLOPE * delta[i];
    }
}

static void add_bias_gradient(const float *delta, size_t positions, size_t channels,
                              float *gradient)
{
    for (size_t t = 0; t < positions; t++) {
        for (size_t k = 0; k < channels; k++) {
            gradient[k] += delta[t * channels + k];
        }
    }
}

// delta: the gradient by the layer's output. in_delta: NULL, or where that by its input goes.
static void backward_layer(const struct tern_autoencoder_layer *layer, const float *weights,
                           const float *in, size_t in_positions, float *panel, float *delta,
                           float *gradient, float *in_delta)
{
    const struct taps taps = taps_of(layer, weights, in_positions);
    const size_t positions = positions_after(layer, in_positions);
    clear_ends(delta, positions, layer->outputs);
    add_bias_gradient(delta, positions, layer->outputs, gradient + bias_offset(layer));
    add_gradient(&taps, layer->transposed ? in : delta, layer->transposed ? delta : in,
                 gradient + layer->offset);
    if (in_delta == NULL) {
        return;
    }
    clear_sequence(in_delta, in_positions, layer->inputs);
    if (layer->transposed) {
        gather(&taps, delta, panel, in_delta);
    } else {
        spread(&taps, delta, in_delta);
    }
}

const float *tern_chain_backward(struct tern_chain *chain, const float *weights, float *gradient,
                                 bool by_input)
{
    float *delta = tern_chain_output_delta(chain);
    size_t positions = tern_chain_out_positions(chain);
    for (uint32_t i = chain->layer_count; i-- > 0;) {
        const struct tern_autoencoder_layer *layer = &chain->layers[i];
        const bool wanted = i > 0 || by_input;
        float *in_delta =
            wanted ? chain->delta[(chain->layer_count - i) % 2] + layer->inputs : NULL;
        const float *in = i > 0 ? chain->out[i - 1] : chain->in;
        positions = layer->transposed ? positions / layer->stride : positions * layer->stride;
        backward_layer(layer, weights, in, positions, chain->panel, delta, gradient, in_delta);
        if (i > 0) {
            leaky_relu_backward(in, positions * layer->inputs, in_delta);
        }
        delta = in_delta;
    }
    return delta;
}
