#include "lgc/autoencoder.h"

#include "tensor/gemm.h"
#include "util/arena.h"
#include "util/math.h"
#include "util/prng.h"

#include <string.h>

enum { CHAIN_LAYERS = TERN_AUTOENCODER_DECODER_LAYERS };

struct chain {
    const struct tern_autoencoder_layer *layers;
    uint32_t layer_count;
    size_t positions;         // positions of the input
    float *in;                // first position of the input, after the zeros
    float *out[CHAIN_LAYERS]; // first position of each layer's output
    float *delta[2];          // gradients by a layer's output
    float *panel;             // scratch of tern_gemm_transposed()
};

static inline bool has_innovation(const struct tern_autoencoder *autoencoder)
{
    return autoencoder->settings.pattern == TERN_AUTOENCODER_PARAMETER_SERVER;
}

// Scales a value to the network's unit.
static inline float in_unit(float value, float scale)
{
    return scale > 0.0f ? value / scale : 0.0f;
}

// --- Convolutions

// A chain of convolutions over one sequence, forwards and backwards: encoder and decoder are each one. All except the
// last are followed by a leaky relu. Sequences are stored as [positions][channels] with a position of zeros before
// and after, so that the three positions of a convolution are one row of a matrix without a copy: rows overlap. A
// transposed convolution is the adjoint of a convolution, and its backward pass is a convolution.

#define SLOPE 0.01f // slope of the leaky relu below 0 (He et al. 2015)
#define BLOCK                                                                                      \
    128 // positions per block, whose rows stay in the cache while all weight gradients are summed

// --- Sequences of all layers

static size_t positions_after(const struct tern_autoencoder_layer *layer, size_t positions)
{
    return layer->transposed ? positions * layer->stride : positions / layer->stride;
}

// Allocates a sequence with zeros around it; returns its first position.
static float *take_sequence(struct tern_arena *arena, size_t positions, size_t channels)
{
    float *start = tern_arena_take(arena, positions + 2, channels * sizeof(float));
    return start != NULL ? start + channels : NULL;
}

static void clear_sequence(float *first, size_t positions, size_t channels)
{
    memset(first - channels, 0, (positions + 2) * channels * sizeof(float));
}

// Clears the zeros around a sequence.
static void clear_ends(float *first, size_t positions, size_t channels)
{
    memset(first - channels, 0, channels * sizeof(float));
    memset(first + positions * channels, 0, channels * sizeof(float));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// Returns the columns of the matrix of gather().
static size_t row_length(const struct tern_autoencoder_layer *layer)
{
    return (size_t)layer->width * (layer->transposed ? layer->outputs : layer->inputs);
}

// Allocates the arena's memory for forward(), and for backward() if wanted. Pointers are NULL if the arena is too
// small. forward() and backward() write the zeros around sequences.
static void chain_place(struct chain *chain, const struct tern_autoencoder_layer *layers,
                        uint32_t layer_count, size_t positions, bool backward,
                        struct tern_arena *arena)
{
    *chain = (struct chain){.layers = layers, .layer_count = layer_count, .positions = positions};
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
    size_t longer;    // channels on the longer side
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

// Returns the row of the longer side that belongs to position 0 of the shorter side.
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

// The adjoint: longer[stride * t - 1 .. stride * t + 1] += weights transposed * shorter[t], in three passes, since
// rows of one product may not overlap. The caller clears what is added to the zeros around the sequence.
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

// gradient[channel][width * longer] += the sum over t of shorter[t][channel] * the row of t
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

// Computes every layer's output from chain->in. weights: the layers' offsets count from here.
static void chain_forward(struct chain *chain, const float *weights)
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

// Returns the last layer's output: [chain_out_positions()][channels].
static float *chain_output(const struct chain *chain)
{
    return chain->out[chain->layer_count - 1];
}

static size_t chain_out_positions(const struct chain *chain)
{
    size_t positions = chain->positions;
    for (uint32_t i = 0; i < chain->layer_count; i++) {
        positions = positions_after(&chain->layers[i], positions);
    }
    return positions;
}

// --- Backwards

// Returns where the caller puts the gradient by the output for backward().
static float *chain_output_delta(const struct chain *chain)
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

// One layer backwards. delta: gradient by the layer's output. in_delta: receives the gradient by its input; NULL: not
// wanted.
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

// Runs after forward() and after the caller has set the gradient by the output: adds the weights' gradients to
// `gradient`. Returns the gradient by the input, [positions][channels], if wanted, else NULL.
static const float *chain_backward(struct chain *chain, const float *weights, float *gradient,
                                   bool by_input)
{
    float *delta = chain_output_delta(chain);
    size_t positions = chain_out_positions(chain);
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

// --- Encoder and decoder

// --- Layers: the paper's tables I and II

static bool valid(const struct tern_autoencoder_settings *settings)
{
    const bool ring = settings->pattern == TERN_AUTOENCODER_RING_ALLREDUCE;
    return (ring || settings->pattern == TERN_AUTOENCODER_PARAMETER_SERVER) &&
           settings->width >= 2 && settings->width <= TERN_AUTOENCODER_MAX_WIDTH &&
           settings->width % 2 == 0 && settings->channels >= 1 &&
           settings->channels <= TERN_AUTOENCODER_MAX_CHANNELS && settings->decoders >= 1 &&
           settings->decoders <= (ring ? 1 : TERN_AUTOENCODER_MAX_DECODERS);
}

// Sets the layers' inputs and offsets; returns their number of weights.
static uint32_t chain_layers(struct tern_autoencoder_layer *layers, uint32_t count, uint32_t inputs)
{
    uint32_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        layers[i].inputs = inputs;
        layers[i].offset = offset;
        offset += layers[i].width * inputs * layers[i].outputs + layers[i].outputs;
        inputs = layers[i].outputs;
    }
    return offset;
}

enum tern_result tern_autoencoder_init(struct tern_autoencoder *autoencoder,
                                       const struct tern_autoencoder_settings *settings)
{
    if (!valid(settings)) {
        return TERN_ERR_ARGUMENT;
    }
    const uint32_t width = settings->width;
    const uint32_t channels = settings->channels;
    *autoencoder = (struct tern_autoencoder){
        .settings = *settings,
        .encoder = {{.outputs = width, .width = 3, .stride = 2},
                    {.outputs = 2 * width, .width = 3, .stride = 2},
                    {.outputs = 4 * width, .width = 3, .stride = 2},
                    {.outputs = width, .width = 3, .stride = 2},
                    {.outputs = channels, .width = 1, .stride = 1}},
        // Table II has stride 2 in all five layers, which would give 32 values per position. Here the first one,
        // opposite the encoder's convolution of width 1, has stride 1.
        .decoder = {{.outputs = channels, .width = 3, .stride = 1, .transposed = true},
                    {.outputs = width / 2, .width = 3, .stride = 2, .transposed = true},
                    {.outputs = width, .width = 3, .stride = 2, .transposed = true},
                    {.outputs = 2 * width, .width = 3, .stride = 2, .transposed = true},
                    {.outputs = width / 2, .width = 3, .stride = 2, .transposed = true},
                    {.outputs = 1, .width = 1, .stride = 1}},
    };
    const bool innovation = settings->pattern == TERN_AUTOENCODER_PARAMETER_SERVER;
    autoencoder->encoder_count =
        chain_layers(autoencoder->encoder, TERN_AUTOENCODER_ENCODER_LAYERS, 1);
    autoencoder->decoder_count =
        chain_layers(autoencoder->decoder, TERN_AUTOENCODER_DECODER_LAYERS, channels) + innovation;
    autoencoder->count =
        autoencoder->encoder_count + settings->decoders * autoencoder->decoder_count;
    return TERN_OK;
}

// --- Weights

// Returns the number of inputs summed for an output. With stride 2 a transposed convolution has one and two in turn:
// their mean.
static float fan_in(const struct tern_autoencoder_layer *layer)
{
    const uint32_t taps = layer->width * layer->inputs;
    return layer->transposed ? (float)taps / (float)layer->stride : (float)taps;
}

static void draw(struct tern_prng *rng, float bound, float *weights, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = bound * (2 * tern_prng_float(rng) - 1);
    }
}

// Initialises a chain's layers. stream: number of the first layer among all. Biases are 0.
static void init_chain(const struct tern_autoencoder_layer *layers, uint32_t count, uint64_t seed,
                       uint32_t stream, float *weights)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_autoencoder_layer *layer = &layers[i];
        const uint32_t taps = layer->width * layer->inputs * layer->outputs;
        const float gain = i + 1 < count ? 6.0f : 3.0f; // with and without a following relu
        struct tern_prng rng;
        tern_prng_init(&rng, seed, TERN_PRNG_AUTOENCODER, stream + i, 0);
        draw(&rng, (float)tern_sqrt((double)(gain / fan_in(layer))), weights + layer->offset, taps);
        for (uint32_t k = 0; k < layer->outputs; k++) {
            weights[layer->offset + taps + k] = 0.0f;
        }
    }
}

void tern_autoencoder_init_weights(const struct tern_autoencoder *autoencoder, uint64_t seed,
                                   float *weights)
{
    init_chain(autoencoder->encoder, TERN_AUTOENCODER_ENCODER_LAYERS, seed, 0, weights);
    weights += autoencoder->encoder_count;
    for (uint32_t k = 0; k < autoencoder->settings.decoders; k++) {
        init_chain(autoencoder->decoder, TERN_AUTOENCODER_DECODER_LAYERS, seed,
                   TERN_AUTOENCODER_ENCODER_LAYERS + k * TERN_AUTOENCODER_DECODER_LAYERS, weights);
        if (has_innovation(autoencoder)) {
            weights[autoencoder->decoder_count - 1] =
                1.0f; // at first the decoder passes the innovation on
        }
        weights += autoencoder->decoder_count;
    }
}

static bool all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!tern_is_finite(values[i])) {
            return false;
        }
    }
    return true;
}

enum tern_result tern_autoencoder_check_weights(const float *weights, size_t count,
                                                uint32_t expected)
{
    if (count != expected) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    return all_finite(weights, count) ? TERN_OK : TERN_ERR_NON_FINITE;
}

// --- Sizes

static bool good_length(size_t length)
{
    return length > 0 && length <= TERN_AUTOENCODER_MAX_LENGTH;
}

// Returns the positions of the code of `length` values.
static size_t code_positions(size_t length)
{
    return (length + TERN_AUTOENCODER_STRIDE - 1) / TERN_AUTOENCODER_STRIDE;
}

size_t tern_autoencoder_code_length(const struct tern_autoencoder *autoencoder, size_t length)
{
    return good_length(length) ? code_positions(length) * autoencoder->settings.channels : 0;
}

static void place_encoder(const struct tern_autoencoder *autoencoder, size_t length, bool backward,
                          struct tern_arena *arena, struct chain *encoder)
{
    chain_place(encoder, autoencoder->encoder, TERN_AUTOENCODER_ENCODER_LAYERS,
                code_positions(length) * TERN_AUTOENCODER_STRIDE, backward, arena);
}

static void place_decoder(const struct tern_autoencoder *autoencoder, size_t length, bool backward,
                          struct tern_arena *arena, struct chain *decoder)
{
    chain_place(decoder, autoencoder->decoder, TERN_AUTOENCODER_DECODER_LAYERS,
                code_positions(length), backward, arena);
}

// Returns the bytes for an arena of `used` in memory of any alignment; 0: beyond size_t.
static size_t arena_bytes(size_t used)
{
    // Skips to the first aligned address: the memory may start anywhere.
    return used > SIZE_MAX - TERN_ARENA_ALIGNMENT ? 0 : used + TERN_ARENA_ALIGNMENT;
}

size_t tern_autoencoder_workspace(const struct tern_autoencoder *autoencoder, size_t length)
{
    if (!good_length(length)) {
        return 0;
    }
    struct tern_arena encoding = {NULL, 0, 0};
    struct tern_arena decoding = {NULL, 0, 0};
    struct chain chain;
    place_encoder(autoencoder, length, false, &encoding, &chain);
    place_decoder(autoencoder, length, false, &decoding, &chain);
    return arena_bytes(encoding.used > decoding.used ? encoding.used : decoding.used);
}

// Makes an arena in a workspace for `length` values that needs `needed` bytes (0: too many values).
static enum tern_result open_arena(size_t length, size_t needed, void *workspace, size_t size,
                                   struct tern_arena *arena)
{
    if (length == 0) {
        return TERN_ERR_ARGUMENT;
    }
    if (needed == 0) {
        return TERN_ERR_TOO_LARGE;
    }
    if (workspace == NULL || size < needed) {
        return TERN_ERR_NO_SPACE;
    }
    const size_t skip =
        (TERN_ARENA_ALIGNMENT - (uintptr_t)workspace % TERN_ARENA_ALIGNMENT) % TERN_ARENA_ALIGNMENT;
    *arena = (struct tern_arena){(uint8_t *)workspace + skip, size - skip, 0};
    return TERN_OK;
}

// --- Inputs and outputs of the network

float tern_autoencoder_scale(const float *values, size_t length)
{
    double sum = 0.0;
    for (size_t i = 0; i < length; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    if (!all_finite(values, length)) {
        return tern_bits_float(0x7FC00000u);
    }
    return length > 0 ? (float)tern_sqrt(sum / (double)length) : 0.0f;
}

static enum tern_result check_scale(float scale)
{
    if (!tern_is_finite(scale)) {
        return TERN_ERR_NON_FINITE;
    }
    return scale < 0.0f ? TERN_ERR_ARGUMENT : TERN_OK;
}

// Writes the encoder's input: values in the network's unit, padded with zeros to a whole position of the code.
static void read_values(const float *values, size_t length, float scale, struct chain *encoder)
{
    for (size_t i = 0; i < length; i++) {
        encoder->in[i] = in_unit(values[i], scale);
    }
    for (size_t i = length; i < encoder->positions; i++) {
        encoder->in[i] = 0.0f;
    }
}

// Decodes the code in decoder->in; the output is in the network's unit. weights: of the decoder.
static void run_decoder(const struct tern_autoencoder *autoencoder, const float *weights,
                        const float *innovation, size_t length, float scale, struct chain *decoder)
{
    chain_forward(decoder, weights);
    if (!has_innovation(autoencoder)) {
        return;
    }
    // The last convolution has width 1: its innovation channel contributes one product per value.
    const float weight = weights[autoencoder->decoder_count - 1];
    float *out = chain_output(decoder);
    for (size_t i = 0; i < length; i++) {
        out[i] += weight * in_unit(innovation[i], scale);
    }
}

enum tern_result tern_autoencoder_encode(const struct tern_autoencoder *autoencoder,
                                         const float *weights, const float *values, size_t length,
                                         float scale, void *workspace, size_t workspace_size,
                                         float *code)
{
    struct tern_arena arena;
    struct chain encoder;
    TERN_TRY(check_scale(scale));
    TERN_TRY(open_arena(length, tern_autoencoder_workspace(autoencoder, length), workspace,
                        workspace_size, &arena));
    if (!all_finite(values, length)) {
        return TERN_ERR_NON_FINITE;
    }
    place_encoder(autoencoder, length, false, &arena, &encoder);
    read_values(values, length, scale, &encoder);
    chain_forward(&encoder, weights);
    const float *out = chain_output(&encoder);
    const size_t count = tern_autoencoder_code_length(autoencoder, length);
    if (!all_finite(out, count)) {
        return TERN_ERR_NON_FINITE;
    }
    for (size_t i = 0; i < count; i++) {
        code[i] = out[i];
    }
    return TERN_OK;
}

enum tern_result tern_autoencoder_decode(const struct tern_autoencoder *autoencoder,
                                         const float *weights, const float *code,
                                         const float *innovation, size_t length, float scale,
                                         void *workspace, size_t workspace_size, float *values)
{
    struct tern_arena arena;
    struct chain decoder;
    TERN_TRY(check_scale(scale));
    if ((innovation != NULL) != has_innovation(autoencoder)) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(open_arena(length, tern_autoencoder_workspace(autoencoder, length), workspace,
                        workspace_size, &arena));
    const size_t count = tern_autoencoder_code_length(autoencoder, length);
    if (innovation != NULL && !all_finite(innovation, length)) {
        return TERN_ERR_NON_FINITE;
    }
    place_decoder(autoencoder, length, false, &arena, &decoder);
    for (size_t i = 0; i < count; i++) {
        decoder.in[i] = code[i];
    }
    run_decoder(autoencoder, weights, innovation, length, scale, &decoder);
    float *out = chain_output(&decoder);
    for (size_t i = 0; i < length; i++) {
        out[i] *= scale;
    }
    if (!all_finite(out, length)) {
        return TERN_ERR_NON_FINITE;
    }
    for (size_t i = 0; i < length; i++) {
        values[i] = out[i];
    }
    return TERN_OK;
}

// --- Training

// One training step in the caller's workspace. Each node is encoded twice, before and after the decoder, so that
// memory does not grow with the nodes; encoder and decoder share it.
struct step {
    const struct tern_autoencoder *autoencoder;
    const struct tern_autoencoder_training *training;
    const struct tern_autoencoder_round *round;
    const float *weights;
    size_t code_length;
    float *gradient; // by all weights
    float *scales;   // scale of each node
    float *codes;    // [nodes][code_length]
    float *mean;     // [code_length], mean of the codes
    float *by_code;  // [code_length], gradient of the reconstruction loss by the decoded code
    struct chain encoder;
    struct chain decoder;
};

static void place(struct step *step, const struct tern_autoencoder *autoencoder, size_t length,
                  size_t nodes, struct tern_arena *arena)
{
    const size_t code = tern_autoencoder_code_length(autoencoder, length);
    step->code_length = code;
    step->gradient = tern_arena_take(arena, autoencoder->count, sizeof(float));
    step->scales = tern_arena_take(arena, nodes, sizeof(float));
    step->codes = tern_arena_take(arena, nodes, code * sizeof(float));
    step->mean = tern_arena_take(arena, code, sizeof(float));
    step->by_code = tern_arena_take(arena, code, sizeof(float));
    struct tern_arena same = *arena;
    place_encoder(autoencoder, length, true, arena, &step->encoder);
    place_decoder(autoencoder, length, true, &same, &step->decoder);
    arena->used = arena->used > same.used ? arena->used : same.used;
}

size_t tern_autoencoder_training_workspace(const struct tern_autoencoder *autoencoder,
                                           size_t length, size_t nodes)
{
    if (tern_autoencoder_code_length(autoencoder, length) == 0 || nodes == 0) {
        return 0;
    }
    struct tern_arena arena = {NULL, 0, 0};
    struct step step;
    place(&step, autoencoder, length, nodes, &arena);
    return arena_bytes(arena.used);
}

// --- Checks

static bool in_range(float value, float limit)
{
    return tern_is_finite(value) && value >= 0.0f && value < limit;
}

static bool step_is_valid(const struct tern_autoencoder *autoencoder,
                          const struct tern_autoencoder_training *training,
                          const struct tern_autoencoder_round *round)
{
    const uint32_t decoders = autoencoder->settings.decoders;
    return in_range(training->learning_rate, 1e30f) && in_range(training->momentum, 1.0f) &&
           in_range(training->clip, 1e30f) && in_range(training->similarity, 1e30f) &&
           round->common < round->nodes && (decoders == 1 || decoders == round->nodes) &&
           (round->innovations != NULL) == has_innovation(autoencoder);
}

static bool is_ring(const struct step *step)
{
    return !has_innovation(step->autoencoder);
}

static enum tern_result read_scales(struct step *step)
{
    const struct tern_autoencoder_round *round = step->round;
    for (size_t k = 0; k < round->nodes; k++) {
        step->scales[k] = tern_autoencoder_scale(round->values[k], round->length);
        if (!tern_is_finite(step->scales[k]) ||
            (!is_ring(step) && !all_finite(round->innovations[k], round->length))) {
            return TERN_ERR_NON_FINITE;
        }
    }
    for (size_t k = 0; k < round->nodes && is_ring(step); k++) {
        if (k != round->common) {
            step->scales[k] = step->scales[round->common];
        }
    }
    return TERN_OK;
}

// --- The encoder

static void encode(struct step *step, size_t node)
{
    read_values(step->round->values[node], step->round->length, step->scales[node], &step->encoder);
    chain_forward(&step->encoder, step->weights);
}

static void encode_all(struct step *step)
{
    const size_t count = step->code_length;
    memset(step->mean, 0, count * sizeof(float));
    for (size_t k = 0; k < step->round->nodes; k++) {
        encode(step, k);
        float *code = step->codes + k * count;
        memcpy(code, chain_output(&step->encoder), count * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            step->mean[i] += code[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        step->mean[i] /= (float)step->round->nodes;
    }
}

// Returns the mean square over pairs of different nodes: twice the unbiased variance of the codes around their mean.
static double similarity_loss(const struct step *step)
{
    const size_t nodes = step->round->nodes;
    double sum = 0.0;
    if (nodes == 1 || is_ring(step)) {
        return 0.0;
    }
    for (size_t i = 0; i < nodes * step->code_length; i++) {
        const double apart = (double)step->codes[i] - (double)step->mean[i % step->code_length];
        sum += apart * apart;
    }
    return 2 * sum / ((double)(nodes - 1) * (double)step->code_length);
}

// Writes the gradient of both losses by a node's code to delta. Returns whether it can be nonzero.
static bool code_delta(const struct step *step, size_t node, float *delta)
{
    const size_t nodes = step->round->nodes;
    const float *code = step->codes + node * step->code_length;
    if (is_ring(step)) {
        for (size_t i = 0; i < step->code_length; i++) {
            delta[i] = step->by_code[i] / (float)nodes;
        }
        return true;
    }
    const bool common = node == step->round->common;
    const bool pairs = nodes > 1 && step->training->similarity > 0.0f;
    const float weight =
        pairs ? 4 * step->training->similarity / ((float)(nodes - 1) * (float)step->code_length)
              : 0.0f;
    for (size_t i = 0; i < step->code_length; i++) {
        delta[i] = weight * (code[i] - step->mean[i]) + (common ? step->by_code[i] : 0.0f);
    }
    return common || pairs;
}

static void encode_backward(struct step *step)
{
    for (size_t k = 0; k < step->round->nodes; k++) {
        if (!code_delta(step, k, chain_output_delta(&step->encoder))) {
            continue;
        }
        encode(step, k);
        chain_backward(&step->encoder, step->weights, step->gradient, false);
    }
}

// --- The decoder

// Writes the target of a node's decoder in the network's unit: its values, in a ring the mean of all nodes.
static float target(const struct step *step, size_t node, size_t i)
{
    const struct tern_autoencoder_round *round = step->round;
    if (!is_ring(step)) {
        return in_unit(round->values[node][i], step->scales[node]);
    }
    float sum = 0.0f;
    for (size_t k = 0; k < round->nodes; k++) {
        sum += in_unit(round->values[k][i], step->scales[k]);
    }
    return sum / (float)round->nodes;
}

// Decodes for a node (ring: once for all), adds its gradients, and returns the sum of its squared errors. share:
// weight of this decoder in the mean loss.
static double decode(struct step *step, size_t node, const float *code, size_t share)
{
    const struct tern_autoencoder *autoencoder = step->autoencoder;
    const size_t length = step->round->length;
    const size_t own = autoencoder->settings.decoders > 1 ? node : 0;
    const size_t offset = autoencoder->encoder_count + own * autoencoder->decoder_count;
    const float *innovation = is_ring(step) ? NULL : step->round->innovations[node];
    memcpy(step->decoder.in, code, step->code_length * sizeof(float));
    run_decoder(autoencoder, step->weights + offset, innovation, length, step->scales[node],
                &step->decoder);
    const float *out = chain_output(&step->decoder);
    float *delta = chain_output_delta(&step->decoder);
    float *gradient = step->gradient + offset;
    const float weight = 2.0f / ((float)share * (float)length);
    double loss = 0.0;
    for (size_t i = 0; i < length; i++) {
        const float error = out[i] - target(step, node, i);
        loss += (double)error * (double)error;
        delta[i] = weight * error;
    }
    const size_t padded = chain_out_positions(&step->decoder);
    memset(delta + length, 0, (padded - length) * sizeof(float));
    for (size_t i = 0; i < length && innovation != NULL; i++) {
        gradient[autoencoder->decoder_count - 1] +=
            delta[i] * in_unit(innovation[i], step->scales[node]);
    }
    const float *by_code = chain_backward(&step->decoder, step->weights + offset, gradient, true);
    for (size_t i = 0; i < step->code_length; i++) {
        step->by_code[i] += by_code[i];
    }
    return loss;
}

// Returns the reconstruction loss, and puts its gradients by decoders and code into the step.
static double decode_all(struct step *step)
{
    const struct tern_autoencoder_round *round = step->round;
    memset(step->by_code, 0, step->code_length * sizeof(float));
    if (is_ring(step)) {
        return decode(step, round->common, step->mean, 1) / (double)round->length;
    }
    const float *common = step->codes + round->common * step->code_length;
    double sum = 0.0;
    for (size_t k = 0; k < round->nodes; k++) {
        sum += decode(step, k, common, round->nodes);
    }
    return sum / ((double)round->nodes * (double)round->length);
}

// --- SGD

static void clip(struct step *step)
{
    const uint32_t count = step->autoencoder->count;
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)step->gradient[i] * (double)step->gradient[i];
    }
    const double norm = tern_sqrt(sum);
    const double limit = (double)step->training->clip;
    if (limit > 0.0 && norm > limit) {
        const float factor = (float)(limit / norm);
        for (uint32_t i = 0; i < count; i++) {
            step->gradient[i] *= factor;
        }
    }
}

static enum tern_result move_weights(struct step *step, float *weights, float *velocity)
{
    const uint32_t count = step->autoencoder->count;
    const float momentum = step->training->momentum;
    const float rate = step->training->learning_rate;
    for (uint32_t i = 0; i < count; i++) {
        const float moved = weights[i] - rate * (momentum * velocity[i] + step->gradient[i]);
        if (!tern_is_finite(moved)) {
            return TERN_ERR_TRAINER;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        velocity[i] = momentum * velocity[i] + step->gradient[i];
        weights[i] -= rate * velocity[i];
    }
    return TERN_OK;
}

enum tern_result tern_autoencoder_train_step(const struct tern_autoencoder *autoencoder,
                                             const struct tern_autoencoder_training *training,
                                             const struct tern_autoencoder_round *round,
                                             float *weights, float *velocity, void *workspace,
                                             size_t workspace_size,
                                             struct tern_autoencoder_losses *losses)
{
    struct tern_arena arena;
    if (!step_is_valid(autoencoder, training, round)) {
        return TERN_ERR_ARGUMENT;
    }
    const size_t needed =
        tern_autoencoder_training_workspace(autoencoder, round->length, round->nodes);
    TERN_TRY(open_arena(round->length, needed, workspace, workspace_size, &arena));
    struct step step = {
        .autoencoder = autoencoder, .training = training, .round = round, .weights = weights};
    place(&step, autoencoder, round->length, round->nodes, &arena);
    TERN_TRY(read_scales(&step));
    memset(step.gradient, 0, autoencoder->count * sizeof(float));
    encode_all(&step);
    const struct tern_autoencoder_losses found = {
        .similarity = (float)similarity_loss(&step),
        .reconstruction = (float)decode_all(&step),
    };
    if (!tern_is_finite(found.similarity) || !tern_is_finite(found.reconstruction)) {
        return TERN_ERR_TRAINER;
    }
    encode_backward(&step);
    clip(&step);
    TERN_TRY(move_weights(&step, weights, velocity));
    *losses = found;
    return TERN_OK;
}
