// The named tensors of a model and how they lie in one flat float32 vector. Both ends of a
// federation build the same layout from the same manifest; its hash names it. Pure; the caller owns
// all memory.
//
// Layout: the flat vector holds first the large tensors in manifest order, then the small ones
// (fewer than TERN_FUSE_BELOW values) in manifest order. Each large tensor is a *segment* of its
// own; all small ones together are one last segment. A segment is what a codec encodes as one
// payload.
#ifndef TERN_MODEL_H
#define TERN_MODEL_H

#include "build.h"
#include "result.h"
#include "util/sha256.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_TENSOR_MAX_DIMS 4
#define TERN_FUSE_BELOW 512
#define TERN_MODEL_MAX_VALUES (TERN_SMALL ? 1u << 24 : 1u << 28)

struct tern_tensor {
    char name[TERN_TENSOR_NAME_MAX];
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t dim_count; // 1..TERN_TENSOR_MAX_DIMS
    uint32_t count;     // values: the product of dims
    uint32_t offset;    // first value in the flat vector; set by tern_model_layout()
    float init_bound;   // initial values are uniform in [-init_bound, init_bound]; 0 = zeros
};

struct tern_segment {
    uint32_t offset;
    uint32_t count;
};

struct tern_model {
    struct tern_tensor tensors[TERN_MODEL_MAX_TENSORS];
    uint32_t tensor_count;
    struct tern_segment segments[TERN_MODEL_MAX_TENSORS];
    uint32_t segment_count;
    uint32_t count; // values in all tensors
    uint8_t hash[TERN_SHA256_SIZE];
};

// Appends a tensor. dims: dim_count sizes, each >= 1. init_bound: finite, >= 0.
// TERN_ERR_ARGUMENT   empty, over-long or repeated name, zero size, too many dims, bad bound
// TERN_ERR_TOO_LARGE  more than TERN_MODEL_MAX_TENSORS tensors or TERN_MODEL_MAX_VALUES values
TERN_MUST_USE enum tern_result tern_model_add(struct tern_model *model, const char *name,
                                              const uint32_t *dims, uint32_t dim_count,
                                              float init_bound);

// Sets offsets, segments, count and hash after the last tern_model_add().
// TERN_ERR_ARGUMENT  the model has no tensor
TERN_MUST_USE enum tern_result tern_model_layout(struct tern_model *model);

// Builds a built-in model, layout included, from its spec string:
//   softmax:FEATURES-CLASSES       tern.example: softmax:64-6
//   mlp:FEATURES-HIDDEN-...-CLASSES  one or more hidden layers (relu)
//   cnn:HxWxC-F1-F2-CLASSES        conv3x3(F1)-relu-pool2, conv3x3(F2)-relu-pool2, dense
//                                  zero-padded by 1, so that a pool halves H and W (rounded down)
// Weights are [out][in] (dense) and [out][kh][kw][in] (conv), names "fc1.weight", "fc1.bias",
// "conv1.weight", ...; init_bound of weights is sqrt(6 / fan_in) for layers before a relu and
// sqrt(3 / fan_in) for the last (He et al. 2015; LeCun et al. 1998), of biases 0.
// TERN_ERR_ARGUMENT  the spec is not of this form; TERN_ERR_TOO_LARGE  over the limits above
TERN_MUST_USE enum tern_result tern_model_from_spec(struct tern_model *model, const char *spec);

// Fills weights[0..model->count) with the initial values that `seed` names, the same bits
// everywhere.
void tern_model_init_weights(const struct tern_model *model, uint64_t seed, float *weights);

#endif
