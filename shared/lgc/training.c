#include "lgc/autoencoder.h"
#include "lgc/internal.h"
#include "util/math.h"
#include "util/sqrt.h"
#include <string.h>

// One step in the caller's workspace. Nodes are encoded twice, before and after the decoder, so that the memory does not
// grow with them; encoder and decoder take turns in the same one.
struct step {
    const struct tern_autoencoder *autoencoder;
    const struct tern_autoencoder_training *training;
    const struct tern_autoencoder_round *round;
    const float *weights;
    size_t code_length;
    float *gradient; // by all weights
    float *scales;   // of each node
    float *codes;    // [nodes][code_length]
    float *mean;     // [code_length], of the codes
    float *by_code;  // [code_length], of the reconstruction loss by the code that is decoded
    struct tern_chain encoder;
    struct tern_chain decoder;
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
    tern_autoencoder_place_encoder(autoencoder, length, true, arena, &step->encoder);
    tern_autoencoder_place_decoder(autoencoder, length, true, &same, &step->decoder);
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
    return tern_autoencoder_bytes(arena.used);
}

// --- What is given

static bool in_range(float value, float limit)
{
    return tern_is_finite(value) && value >= 0.0f && value < limit;
}

static bool valid(const struct tern_autoencoder *autoencoder,
                  const struct tern_autoencoder_training *training,
                  const struct tern_autoencoder_round *round)
{
    const uint32_t decoders = autoencoder->settings.decoders;
    return in_range(training->learning_rate, 1e30f) && in_range(training->momentum, 1.0f) &&
           in_range(training->clip, 1e30f) && in_range(training->similarity, 1e30f) &&
           round->common < round->nodes && (decoders == 1 || decoders == round->nodes) &&
           (round->innovations != NULL) == tern_autoencoder_has_innovation(autoencoder);
}

static bool is_ring(const struct step *step)
{
    return !tern_autoencoder_has_innovation(step->autoencoder);
}

static enum tern_result read_scales(struct step *step)
{
    const struct tern_autoencoder_round *round = step->round;
    for (size_t k = 0; k < round->nodes; k++) {
        step->scales[k] = tern_autoencoder_scale(round->values[k], round->length);
        if (!tern_is_finite(step->scales[k]) ||
            (!is_ring(step) &&
             !tern_autoencoder_all_finite(round->innovations[k], round->length))) {
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
    tern_autoencoder_read_values(step->round->values[node], step->round->length, step->scales[node],
                                 &step->encoder);
    tern_chain_forward(&step->encoder, step->weights);
}

static void encode_all(struct step *step)
{
    const size_t count = step->code_length;
    memset(step->mean, 0, count * sizeof(float));
    for (size_t k = 0; k < step->round->nodes; k++) {
        encode(step, k);
        float *code = step->codes + k * count;
        memcpy(code, tern_chain_output(&step->encoder), count * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            step->mean[i] += code[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        step->mean[i] /= (float)step->round->nodes;
    }
}

// Mean of squares over pairs of different nodes: twice the codes' variance around their mean, as unbiased.
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

// The gradient of both losses by node's code, written to delta. Whether it may be other than 0.
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
        if (!code_delta(step, k, tern_chain_output_delta(&step->encoder))) {
            continue;
        }
        encode(step, k);
        tern_chain_backward(&step->encoder, step->weights, step->gradient, false);
    }
}

// --- The decoder

// Values of a node (ring: the mean of all nodes) in the network's unit: what the decoder should make.
static float target(const struct step *step, size_t node, size_t i)
{
    const struct tern_autoencoder_round *round = step->round;
    if (!is_ring(step)) {
        return tern_autoencoder_scaled(round->values[node][i], step->scales[node]);
    }
    float sum = 0.0f;
    for (size_t k = 0; k < round->nodes; k++) {
        sum += tern_autoencoder_scaled(round->values[k][i], step->scales[k]);
    }
    return sum / (float)round->nodes;
}

// Decodes for a node (ring: for all), adds its gradients, and returns the sum of its squared errors. share: of how
// many such decoders the loss is the mean.
static double decode(struct step *step, size_t node, const float *code, size_t share)
{
    const struct tern_autoencoder *autoencoder = step->autoencoder;
    const size_t length = step->round->length;
    const size_t own = autoencoder->settings.decoders > 1 ? node : 0;
    const size_t offset = autoencoder->encoder_count + own * autoencoder->decoder_count;
    const float *innovation = is_ring(step) ? NULL : step->round->innovations[node];
    memcpy(step->decoder.in, code, step->code_length * sizeof(float));
    tern_autoencoder_run_decoder(autoencoder, step->weights + offset, innovation, length,
                                 step->scales[node], &step->decoder);
    const float *out = tern_chain_output(&step->decoder);
    float *delta = tern_chain_output_delta(&step->decoder);
    float *gradient = step->gradient + offset;
    const float weight = 2.0f / ((float)share * (float)length);
    double loss = 0.0;
    for (size_t i = 0; i < length; i++) {
        const float error = out[i] - target(step, node, i);
        loss += (double)error * (double)error;
        delta[i] = weight * error;
    }
    const size_t padded = tern_chain_out_positions(&step->decoder);
    memset(delta + length, 0, (padded - length) * sizeof(float));
    for (size_t i = 0; i < length && innovation != NULL; i++) {
        gradient[autoencoder->decoder_count - 1] +=
            delta[i] * tern_autoencoder_scaled(innovation[i], step->scales[node]);
    }
    const float *by_code =
        tern_chain_backward(&step->decoder, step->weights + offset, gradient, true);
    for (size_t i = 0; i < step->code_length; i++) {
        step->by_code[i] += by_code[i];
    }
    return loss;
}

// The reconstruction loss; its gradients by decoders and code are in the step.
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
    if (!valid(autoencoder, training, round)) {
        return TERN_ERR_ARGUMENT;
    }
    const size_t needed =
        tern_autoencoder_training_workspace(autoencoder, round->length, round->nodes);
    TERN_TRY(tern_autoencoder_open(round->length, needed, workspace, workspace_size, &arena));
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
