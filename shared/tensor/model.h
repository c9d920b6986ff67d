// The named tensors of a model and how they lie in one flat float32 vector. Both ends of a
// federation build the same layout, from a spec string or from the same manifest
// (tensor/manifest.h); its hash names it. Pure; the caller owns all memory.
//
// Layout: each tensor has a rule, which says how its changes are sent. The flat vector holds the
// tensors of each rule together, first those that are sent, in the order of enum tern_rule, then local
// ones, then frozen ones; those of one rule in manifest order. A tensor with TERN_RULE_COMPRESS is a *segment* of its own; all of any other rule together
// are one. A segment is what is encoded as one payload.
#ifndef TERN_MODEL_H
#define TERN_MODEL_H

#include "build.h"
#include "result.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_FUSE_BELOW 512 // values; without a rule of its own, a smaller tensor is fused
#define TERN_MODEL_MAX_VALUES (TERN_SMALL ? 1u << 24 : 1u << 28)

enum tern_rule {
    TERN_RULE_COMPRESS = 0, // by the codec, in a payload of its own
    TERN_RULE_FUSE = 1,     // by the codec, in one payload with all others of this rule
    TERN_RULE_DENSE = 2,    // exactly, as float32; not error-fed: statistics of a batch norm
    TERN_RULE_SKIP = 3,     // never: the tensor is frozen
    TERN_RULE_LOCAL = 4,    // never: each client trains its own
    TERN_RULE_COUNT = 5
};

// What the outputs of a built-in model are, and how far off they are said to be. Every loss is a mean over
// the examples.
enum tern_loss {
    TERN_LOSS_CROSS_ENTROPY = 0,  // scores of classes: -log of the label's softmax
    TERN_LOSS_MSE = 1,            // one number: (output - target)^2
    TERN_LOSS_MAE = 2,            // one number: |output - target|
    TERN_LOSS_RECONSTRUCTION = 3, // the example itself: mean over its values of (output - value)^2
    TERN_LOSS_COUNT
};

struct tern_tensor {
    char name[TERN_TENSOR_NAME_MAX];
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t dim_count; // 0..TERN_TENSOR_MAX_DIMS; 0 = a single value, only in a manifest
    uint32_t count;     // values: the product of dims
    uint32_t offset;    // first value in the flat vector; set by tern_model_layout()
    float init_bound;   // initial values are uniform in [-init_bound, init_bound]; 0 = zeros
    enum tern_rule rule;
};

struct tern_segment {
    uint32_t offset;
    uint32_t count;
    enum tern_rule rule;
};

struct tern_model {
    struct tern_tensor tensors[TERN_MODEL_MAX_TENSORS];
    uint32_t tensor_count;
    struct tern_segment segments[TERN_MODEL_MAX_TENSORS];
    uint32_t segment_count;
    uint32_t count; // values in all tensors
    uint32_t coded; // of these, the first ones: those that are neither dense nor skipped
    uint8_t hash[TERN_SHA256_SIZE];
    bool from_manifest;
    enum tern_loss loss; // of the spec; no part of the hash
};

static inline enum tern_loss tern_model_loss(const struct tern_model *model)
{
    return TERN_LOSSES ? model->loss : TERN_LOSS_CROSS_ENTROPY;
}

// Whether a codec encodes a segment and error feedback covers it. Else it is dense, or never sent.
static inline bool tern_segment_is_coded(const struct tern_segment *segment)
{
    return !TERN_MANIFESTS || segment->rule < TERN_RULE_DENSE;
}

// Whether its change is never sent: it is frozen or local. Everybody's is that of version 0 then, but for what
// a client keeps to itself.
static inline bool tern_segment_is_skipped(const struct tern_segment *segment)
{
    return TERN_MANIFESTS && segment->rule >= TERN_RULE_SKIP;
}

static inline bool tern_segment_is_frozen(const struct tern_segment *segment)
{
    return TERN_MANIFESTS && segment->rule == TERN_RULE_SKIP;
}

// Whether a seed makes the weights of version 0. Else they came with the model, and who holds
// nothing yet must be given them.
static inline bool tern_model_is_seeded(const struct tern_model *model)
{
    return !TERN_MANIFESTS || !model->from_manifest;
}

// Values that training moves, the first ones of the flat vector: all but those of frozen tensors.
static inline uint32_t tern_model_trained(const struct tern_model *model)
{
    const struct tern_segment *last = &model->segments[model->segment_count - 1];
    return tern_segment_is_frozen(last) ? last->offset : model->count;
}

// Values that are local, the last of those that training moves. *first: the first of them.
static inline uint32_t tern_model_local(const struct tern_model *model, uint32_t *first)
{
    *first = 0;
    for (uint32_t i = 0; TERN_MANIFESTS && i < model->segment_count; i++) {
        if (model->segments[i].rule == TERN_RULE_LOCAL) {
            *first = model->segments[i].offset;
            return model->segments[i].count;
        }
    }
    return 0;
}

// Makes *model one without tensors. What it does not use of the struct is not touched.
void tern_model_clear(struct tern_model *model);

// Appends a tensor, fused when it is smaller than TERN_FUSE_BELOW, else compressed. dims: dim_count
// sizes, each >= 1; dim_count >= 1. init_bound: finite, >= 0.
// TERN_ERR_ARGUMENT   empty, over-long or repeated name, zero size, too many dims, bad bound
// TERN_ERR_TOO_LARGE  more than TERN_MODEL_MAX_TENSORS tensors or TERN_MODEL_MAX_VALUES values
TERN_MUST_USE enum tern_result tern_model_add(struct tern_model *model, const char *name,
                                              const uint32_t *dims, uint32_t dim_count,
                                              float init_bound);

// Appends a tensor of a manifest. Likewise, but dim_count may be 0, and there is no bound.
TERN_MUST_USE enum tern_result tern_model_add_by_rule(struct tern_model *model, const char *name,
                                                      const uint32_t *dims, uint32_t dim_count,
                                                      enum tern_rule rule);

// Sets offsets, segments, count and hash after the last tern_model_add().
// TERN_ERR_ARGUMENT  the model has no tensor
TERN_MUST_USE enum tern_result tern_model_layout(struct tern_model *model);

// Builds a built-in model, layout included, from its spec string:
//   softmax:FEATURES-CLASSES       tern.example: softmax:64-6
//   mlp:FEATURES-HIDDEN-...-CLASSES  one or more hidden layers (relu)
//   cnn:HxWxC-F1-F2-CLASSES        conv3x3(F1)-relu-pool2, conv3x3(F2)-relu-pool2, dense
//                                  zero-padded by 1, so that a pool halves H and W (rounded down)
//   linear:FEATURES-OUTPUTS        one dense layer, always with a loss that follows
// and behind it, but of softmax, the loss where it is not cross-entropy:
//   ,loss=mse ,loss=mae            the model tells a number: the last size is 1
//   ,loss=reconstruction           an autoencoder: the last size is the number of features
// Weights are [out][in] (dense) and [out][kh][kw][in] (conv), names "fc1.weight", "fc1.bias",
// "conv1.weight", ...; init_bound of weights is sqrt(6 / fan_in) for layers before a relu and
// sqrt(3 / fan_in) for the last (He et al. 2015; LeCun et al. 1998), of biases 0.
// TERN_ERR_ARGUMENT  the spec is not of this form; TERN_ERR_TOO_LARGE  over the limits above
TERN_MUST_USE enum tern_result tern_model_from_spec(struct tern_model *model, const char *spec);

// Values of an example that a built-in model of this spec takes: 24 of "mlp:24-32-4", 784 of
// "cnn:28x28x1-8-16-10". 0: the spec is none.
uint32_t tern_model_spec_inputs(const char *spec);

// The loss that a spec names; cross-entropy where it names none. "tensors:..." of an imported model may
// have one, too.
enum tern_loss tern_model_spec_loss(const char *spec);

// Columns that clients of a federation of such a built-in model scale together (docs/PROTOCOL.md, "Statistics of
// columns"): its inputs and, where it tells a number, the target behind them. 0: the spec is none.
uint32_t tern_model_spec_columns(const char *spec);

// "cross-entropy", "mse", "mae", "reconstruction".
const char *tern_loss_name(enum tern_loss loss);

// Fills weights[0..model->count) with the initial values that `seed` names, the same bits
// everywhere. Zeros for a model of a manifest.
void tern_model_init_weights(const struct tern_model *model, uint64_t seed, float *weights);

// Puts zeros where a change is never sent: change[0..model->count). Memory that is zero there is not
// written to, so that none need be behind it.
void tern_model_freeze(const struct tern_model *model, float *change);

#ifdef __cplusplus
}
#endif

#endif
