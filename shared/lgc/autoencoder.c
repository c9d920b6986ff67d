#include "lgc/autoencoder.h"
#include "lgc/internal.h"
#include "util/math.h"
#include "util/prng.h"
#include "util/sqrt.h"

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

// Gives layers their inputs and places; returns how many weights they have together.
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
        // Table II has stride 2 in all five, which would make 32 values of a position: the first, which stands
        // opposite the encoder's convolution of width 1, keeps the length.
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

// Values that an output is a sum of: of a transposed convolution with stride 2, one and two in turn.
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

// Layers of a chain, the first of which is number `stream` of all. Biases are 0.
static void init_chain(const struct tern_autoencoder_layer *layers, uint32_t count, uint64_t seed,
                       uint32_t stream, float *weights)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_autoencoder_layer *layer = &layers[i];
        const uint32_t taps = layer->width * layer->inputs * layer->outputs;
        const float gain = i + 1 < count ? 6.0f : 3.0f; // before a relu, and without one
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
        if (tern_autoencoder_has_innovation(autoencoder)) {
            weights[autoencoder->decoder_count - 1] = 1.0f; // what is known is passed on
        }
        weights += autoencoder->decoder_count;
    }
}

bool tern_autoencoder_all_finite(const float *values, size_t count)
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
    return tern_autoencoder_all_finite(weights, count) ? TERN_OK : TERN_ERR_NON_FINITE;
}

// --- Sizes

static bool good_length(size_t length)
{
    return length > 0 && length <= TERN_AUTOENCODER_MAX_LENGTH;
}

size_t tern_autoencoder_positions(size_t length)
{
    return (length + TERN_AUTOENCODER_STRIDE - 1) / TERN_AUTOENCODER_STRIDE;
}

size_t tern_autoencoder_code_length(const struct tern_autoencoder *autoencoder, size_t length)
{
    return good_length(length) ? tern_autoencoder_positions(length) * autoencoder->settings.channels
                               : 0;
}

void tern_autoencoder_place_encoder(const struct tern_autoencoder *autoencoder, size_t length,
                                    bool backward, struct tern_arena *arena,
                                    struct tern_chain *encoder)
{
    tern_chain_place(encoder, autoencoder->encoder, TERN_AUTOENCODER_ENCODER_LAYERS,
                     tern_autoencoder_positions(length) * TERN_AUTOENCODER_STRIDE, backward, arena);
}

void tern_autoencoder_place_decoder(const struct tern_autoencoder *autoencoder, size_t length,
                                    bool backward, struct tern_arena *arena,
                                    struct tern_chain *decoder)
{
    tern_chain_place(decoder, autoencoder->decoder, TERN_AUTOENCODER_DECODER_LAYERS,
                     tern_autoencoder_positions(length), backward, arena);
}

size_t tern_autoencoder_bytes(size_t used)
{
    // The memory may start anywhere; its first part is then moved up to a whole vector.
    return used > SIZE_MAX - TERN_ARENA_ALIGNMENT ? 0 : used + TERN_ARENA_ALIGNMENT;
}

size_t tern_autoencoder_workspace(const struct tern_autoencoder *autoencoder, size_t length)
{
    if (!good_length(length)) {
        return 0;
    }
    struct tern_arena encoding = {NULL, 0, 0};
    struct tern_arena decoding = {NULL, 0, 0};
    struct tern_chain chain;
    tern_autoencoder_place_encoder(autoencoder, length, false, &encoding, &chain);
    tern_autoencoder_place_decoder(autoencoder, length, false, &decoding, &chain);
    return tern_autoencoder_bytes(encoding.used > decoding.used ? encoding.used : decoding.used);
}

enum tern_result tern_autoencoder_open(size_t length, size_t needed, void *workspace, size_t size,
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

// --- Values, and what the network is given

float tern_autoencoder_scale(const float *values, size_t length)
{
    double sum = 0.0;
    for (size_t i = 0; i < length; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    if (!tern_autoencoder_all_finite(values, length)) {
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

void tern_autoencoder_read_values(const float *values, size_t length, float scale,
                                  struct tern_chain *encoder)
{
    for (size_t i = 0; i < length; i++) {
        encoder->in[i] = tern_autoencoder_scaled(values[i], scale);
    }
    for (size_t i = length; i < encoder->positions; i++) {
        encoder->in[i] = 0.0f;
    }
}

void tern_autoencoder_run_decoder(const struct tern_autoencoder *autoencoder, const float *weights,
                                  const float *innovation, size_t length, float scale,
                                  struct tern_chain *decoder)
{
    tern_chain_forward(decoder, weights);
    if (!tern_autoencoder_has_innovation(autoencoder)) {
        return;
    }
    // The last convolution is of width 1, so that its channel of the innovation is one product for each value.
    const float weight = weights[autoencoder->decoder_count - 1];
    float *out = tern_chain_output(decoder);
    for (size_t i = 0; i < length; i++) {
        out[i] += weight * tern_autoencoder_scaled(innovation[i], scale);
    }
}

enum tern_result tern_autoencoder_encode(const struct tern_autoencoder *autoencoder,
                                         const float *weights, const float *values, size_t length,
                                         float scale, void *workspace, size_t workspace_size,
                                         float *code)
{
    struct tern_arena arena;
    struct tern_chain encoder;
    TERN_TRY(check_scale(scale));
    TERN_TRY(tern_autoencoder_open(length, tern_autoencoder_workspace(autoencoder, length),
                                   workspace, workspace_size, &arena));
    if (!tern_autoencoder_all_finite(values, length)) {
        return TERN_ERR_NON_FINITE;
    }
    tern_autoencoder_place_encoder(autoencoder, length, false, &arena, &encoder);
    tern_autoencoder_read_values(values, length, scale, &encoder);
    tern_chain_forward(&encoder, weights);
    const float *out = tern_chain_output(&encoder);
    const size_t count = tern_autoencoder_code_length(autoencoder, length);
    if (!tern_autoencoder_all_finite(out, count)) {
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
    struct tern_chain decoder;
    TERN_TRY(check_scale(scale));
    if ((innovation != NULL) != tern_autoencoder_has_innovation(autoencoder)) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(tern_autoencoder_open(length, tern_autoencoder_workspace(autoencoder, length),
                                   workspace, workspace_size, &arena));
    const size_t count = tern_autoencoder_code_length(autoencoder, length);
    if (innovation != NULL && !tern_autoencoder_all_finite(innovation, length)) {
        return TERN_ERR_NON_FINITE;
    }
    tern_autoencoder_place_decoder(autoencoder, length, false, &arena, &decoder);
    for (size_t i = 0; i < count; i++) {
        decoder.in[i] = code[i];
    }
    tern_autoencoder_run_decoder(autoencoder, weights, innovation, length, scale, &decoder);
    float *out = tern_chain_output(&decoder);
    for (size_t i = 0; i < length; i++) {
        out[i] *= scale;
    }
    if (!tern_autoencoder_all_finite(out, length)) {
        return TERN_ERR_NON_FINITE;
    }
    for (size_t i = 0; i < length; i++) {
        values[i] = out[i];
    }
    return TERN_OK;
}
