// Computes a built-in model over one flat weights vector: 3x3 convolutions (each followed by relu and 2x2 max pooling), then
// dense layers (relu between them), then the loss: softmax cross-entropy, or a loss of numbers. Called by trainer.c and
// evaluate_numbers.c. Processes chunks of examples in buffers of the caller's arena. The size of a chunk determines memory and
// speed, but has no effect on the bits of a result. Not thread-safe; networks on different arenas are independent.
#ifndef TERN_NETWORK_H
#define TERN_NETWORK_H

#include "build.h"
#include "data/dataset.h"
#include "tensor/model.h"
#include "util/arena.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_NETWORK_MAX_LAYERS (TERN_MODEL_MAX_TENSORS < 64 ? TERN_MODEL_MAX_TENSORS / 2 : 32)

struct tern_layer {
    bool conv;         // false: dense
    uint32_t weight;   // offset of [outputs][inputs] or [outputs][3][3][inputs]
    uint32_t bias;     // offset of [outputs]
    uint32_t inputs;   // units, or channels
    uint32_t outputs;  // units, or channels
    uint32_t height;   // conv: height of the input
    uint32_t width;    // conv: width of the input
    uint32_t in_size;  // values per example
    uint32_t out_size; // values per example, after pooling
    float *out;        // [chunk][out_size], after relu except in the last layer
    uint8_t *winner;   // conv: [chunk][out_size] index of the largest of the four pooled pixels
};

static inline bool tern_layer_is_conv(const struct tern_layer *layer)
{
    return TERN_CONVOLUTIONS && layer->conv;
}

struct tern_network {
    struct tern_layer layers[TERN_NETWORK_MAX_LAYERS];
    uint32_t layer_count;
    uint32_t feature_count;
    uint32_t class_count; // outputs
    uint32_t chunk;       // examples that fit into the buffers
    float *features;      // [chunk][feature_count]
    uint16_t *labels;     // [chunk]
    enum tern_loss loss;
    float *targets;     // [chunk]; NULL: the loss compares outputs with labels or features
    float *delta[2];    // [chunk][largest layer], gradients with respect to a layer's output
    float *panel;       // scratch of tern_gemm_transposed()
    float *patches;     // conv: two rows of 3x3 neighbourhoods
    float *patch_delta; // conv: their gradients
    float *pixels;      // conv: two rows of output
};

static inline enum tern_loss tern_network_loss(const struct tern_network *network)
{
    return TERN_LOSSES ? network->loss : TERN_LOSS_CROSS_ENTROPY;
}

// Returns whether the outputs are numbers, not scores of classes.
static inline bool tern_network_predicts_numbers(const struct tern_network *network)
{
    return tern_network_loss(network) != TERN_LOSS_CROSS_ENTROPY;
}

// Reads the layers from the model's tensors and checks them against the shape of the examples.
// TERN_ERR_MODEL_MISMATCH  the tensors form no such network, or the data has another number of features, more classes than
//                          outputs, or not the targets or labels that the loss needs
TERN_MUST_USE enum tern_result tern_network_build(struct tern_network *network,
                                                  const struct tern_model *model,
                                                  const struct tern_dataset *data);

// Allocates the buffers for chunks of up to `chunk` examples from the arena.
void tern_network_place(struct tern_network *network, uint32_t chunk, struct tern_arena *arena);

// Computes every layer's output for the first `count` rows of network->features.
void tern_network_forward(struct tern_network *network, const float *weights, uint32_t count);

// After forward: adds the losses of the `count` examples to *loss, one by one, and the number of correct answers to *right,
// for numbers 0.
void tern_network_score(const struct tern_network *network, uint32_t count, double *loss,
                        uint32_t *right);

// After forward: returns the predicted class of example i; in a tie, the first.
uint16_t tern_network_answer(const struct tern_network *network, uint32_t i);

// After forward: returns the predicted probability of class `label` for example i (softmax).
float tern_network_probability(const struct tern_network *network, uint32_t i, uint16_t label);

// After forward: adds weight * the gradient of each example's loss to gradient[0..model count), example by example.
void tern_network_backward(struct tern_network *network, const float *weights, uint32_t count,
                           float weight, float *gradient);

// After forward, for models of numbers: returns the first output for example i.
float tern_numbers_output(const struct tern_network *network, uint32_t i);

// After forward, for models of numbers: returns the loss of example i.
double tern_numbers_loss(const struct tern_network *network, uint32_t i);

#ifdef __cplusplus
}
#endif

#endif
