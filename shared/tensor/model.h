// Describes a model: its named tensors and their offsets in one flat float32 vector. Client and
// aggregator build the same layout, from a spec string or from a manifest (tensor/manifest.h), and
// identify it by its hash. Pure; the caller owns all memory.
//
// Layout: each tensor has a rule that determines how its changes are sent. The flat vector is
// sorted by rule: compressed, fused, dense, local, frozen tensors; tensors with the same rule are
// in manifest order. A *segment* is a range of the vector that is encoded as one payload: each
// compressed tensor is a segment, and for any other rule all its tensors together are one.
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

#define TERN_FUSE_BELOW 512 // values; by default, a smaller tensor is fused
#define TERN_MODEL_MAX_VALUES (TERN_SMALL ? 1u << 24 : 1u << 28)

enum tern_rule {
    TERN_RULE_COMPRESS = 0, // sent by the codec, in a payload of its own
    TERN_RULE_FUSE = 1,     // sent by the codec, in one payload with all others of this rule
    TERN_RULE_DENSE = 2,    // sent as float32, without error feedback
    TERN_RULE_SKIP = 3,     // never sent or trained: the tensor is frozen
    TERN_RULE_LOCAL = 4,    // never sent: each client trains its own values
    TERN_RULE_COUNT = 5
};

// The loss function of a built-in model, which also determines what its outputs are. Every loss is
// a mean over the examples.
enum tern_loss {
    TERN_LOSS_CROSS_ENTROPY = 0,  // outputs: scores of classes; loss: -log of the label's softmax
    TERN_LOSS_MSE = 1,            // output: one number; loss: (output - target)^2
    TERN_LOSS_MAE = 2,            // output: one number; loss: |output - target|
    TERN_LOSS_RECONSTRUCTION = 3, // output: the example; loss: mean of (output - value)^2
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
    uint32_t count; // values of all tensors
    uint32_t coded; // values of compressed and fused tensors, which come first
    uint8_t hash[TERN_SHA256_SIZE];
    bool from_manifest;
    enum tern_loss loss; // from the spec string; not part of the hash
};

static inline enum tern_loss tern_model_loss(const struct tern_model *model)
{
    return TERN_LOSSES ? model->loss : TERN_LOSS_CROSS_ENTROPY;
}

// Returns true if a codec encodes the segment, with error feedback. False for dense segments and
// those that are never sent.
static inline bool tern_segment_is_coded(const struct tern_segment *segment)
{
    return !TERN_MANIFESTS || segment->rule < TERN_RULE_DENSE;
}

// Returns true if the segment is never sent: it is frozen or local. On the aggregator it keeps the
// values of version 0.
static inline bool tern_segment_is_skipped(const struct tern_segment *segment)
{
    return TERN_MANIFESTS && segment->rule >= TERN_RULE_SKIP;
}

static inline bool tern_segment_is_frozen(const struct tern_segment *segment)
{
    return TERN_MANIFESTS && segment->rule == TERN_RULE_SKIP;
}

// Returns true if a seed determines the weights of version 0. Otherwise they came with the model,
// and a client without a replica must download them.
static inline bool tern_model_is_seeded(const struct tern_model *model)
{
    return !TERN_MANIFESTS || !model->from_manifest;
}

// Returns the number of values that training changes: all but those of frozen tensors. They come
// first in the flat vector.
static inline uint32_t tern_model_trained(const struct tern_model *model)
{
    const struct tern_segment *last = &model->segments[model->segment_count - 1];
    return tern_segment_is_frozen(last) ? last->offset : model->count;
}

// Returns the number of local values, the last ones that training changes. *first: index of the
// first one.
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

// Sets *model to a model without tensors. Leaves unused parts of the struct unset.
void tern_model_clear(struct tern_model *model);

// Appends a tensor: fused if it is smaller than TERN_FUSE_BELOW, else compressed. dims: dim_count
// sizes, each >= 1; dim_count >= 1. init_bound: finite, >= 0.
// TERN_ERR_ARGUMENT   empty, over-long or repeated name, zero size, too many dims, bad bound
// TERN_ERR_TOO_LARGE  more than TERN_MODEL_MAX_TENSORS tensors or TERN_MODEL_MAX_VALUES values
TERN_MUST_USE enum tern_result tern_model_add(struct tern_model *model, const char *name,
                                              const uint32_t *dims, uint32_t dim_count,
                                              float init_bound);

// Like tern_model_add(), for a tensor of a manifest: with a rule and without a bound; dim_count may
// be 0.
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
//   linear:FEATURES-OUTPUTS        one dense layer; requires a loss from below
// and, except for softmax, a suffix for a loss other than cross-entropy:
//   ,loss=mse ,loss=mae            the model predicts a number: the last size is 1
//   ,loss=reconstruction           an autoencoder: the last size is the number of features
// Weights are [out][in] (dense) and [out][kh][kw][in] (conv), names "fc1.weight", "fc1.bias",
// "conv1.weight", ...; init_bound of weights is sqrt(6 / fan_in) for layers before a relu and
// sqrt(3 / fan_in) for the last (He et al. 2015; LeCun et al. 1998), of biases 0.
// TERN_ERR_ARGUMENT  the spec is not of this form; TERN_ERR_TOO_LARGE  over the limits above
TERN_MUST_USE enum tern_result tern_model_from_spec(struct tern_model *model, const char *spec);

// Returns the number of input values of a built-in model: 24 for "mlp:24-32-4", 784 for
// "cnn:28x28x1-8-16-10". 0: the spec names no built-in model.
uint32_t tern_model_spec_inputs(const char *spec);

// Returns the loss in a spec; cross-entropy if it has none. The spec of an imported model
// ("tensors:...") may have a loss, too.
enum tern_loss tern_model_spec_loss(const char *spec);

// Returns the number of columns that the clients of such a built-in model scale together
// (docs/PROTOCOL.md, "Statistics of columns"): the inputs, and the target if the model predicts a
// number. 0: the spec names no built-in model.
uint32_t tern_model_spec_columns(const char *spec);

// Returns "cross-entropy", "mse", "mae" or "reconstruction".
const char *tern_loss_name(enum tern_loss loss);

// Sets weights[0..model->count) to the initial values for `seed`, the same bits on every platform.
// Zeros for a model from a manifest.
void tern_model_init_weights(const struct tern_model *model, uint64_t seed, float *weights);

// Sets the part of change[0..model->count) that is never sent to 0. Does not write to values that
// are 0 already, so that their untouched pages need no memory.
void tern_model_freeze(const struct tern_model *model, float *change);

#ifdef __cplusplus
}
#endif

#endif
