// The autoencoder of Learned Gradient Compression (LGC; Abrahamyan et al., IEEE TNNLS 2021, section IV): an encoder
// of five 1-D convolutions makes of `length` values, the largest of an update, a code of a quarter as many numbers;
// a decoder of five transposed convolutions and one of width 1 makes values of a code. Two forms: with a parameter
// server one node's code is decoded for each node, together with the node's innovation, its own largest values;
// in a ring the mean of all nodes' codes is decoded once.
//
// Memory is the caller's. Nothing here keeps a state; a struct tern_autoencoder may be read by any thread. Every
// number is float32 arithmetic in a fixed order (tensor/gemm.h), so codes, values and trained weights are the same
// bits on every platform. docs/LGC.md says what it is good for, and where it departs from the paper.
#ifndef TERN_LGC_AUTOENCODER_H
#define TERN_LGC_AUTOENCODER_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_AUTOENCODER_STRIDE 16u         // values per position of the code
#define TERN_AUTOENCODER_MAX_WIDTH 256u     //
#define TERN_AUTOENCODER_MAX_CHANNELS 64u   // of the code
#define TERN_AUTOENCODER_MAX_DECODERS 1024u //
#define TERN_AUTOENCODER_MAX_LENGTH (1u << 24)

enum tern_autoencoder_pattern {
    TERN_AUTOENCODER_PARAMETER_SERVER =
        1, // the last convolution of a decoder also takes the innovation
    TERN_AUTOENCODER_RING_ALLREDUCE = 2,
};

// Settings; the paper's network is {pattern, 64, 4, nodes or 1}.
struct tern_autoencoder_settings {
    enum tern_autoencoder_pattern pattern;
    uint32_t width; // filters of the first convolution, even, 2 to TERN_AUTOENCODER_MAX_WIDTH; the
        // others have the paper's ratio to it: encoder 1, 2, 4, 1; decoder 1/2, 1, 2, 1/2
    uint32_t channels; // the code's numbers per 16 values: 1 to TERN_AUTOENCODER_MAX_CHANNELS
    uint32_t decoders; // 1: shared by all nodes, as in a ring; else one per node
};

enum { TERN_AUTOENCODER_ENCODER_LAYERS = 5, TERN_AUTOENCODER_DECODER_LAYERS = 6 };

// A convolution. Weights are [outputs][width][inputs], of a transposed one [inputs][width][outputs], followed by its
// biases, [outputs].
struct tern_autoencoder_layer {
    uint32_t inputs;  // channels
    uint32_t outputs; // channels
    uint32_t width;   // 3 or 1
    uint32_t stride;  // 2 or 1: positions of the longer side per position of the shorter
    uint32_t offset;  // index of the layer's first weight within the encoder or decoder
    bool transposed;
};

// The layers for the settings, made by tern_autoencoder_init(). Weights are one vector: first the encoder's, which
// suffice for encoding, then each decoder's.
struct tern_autoencoder {
    struct tern_autoencoder_settings settings;
    struct tern_autoencoder_layer encoder[TERN_AUTOENCODER_ENCODER_LAYERS];
    struct tern_autoencoder_layer decoder[TERN_AUTOENCODER_DECODER_LAYERS];
    uint32_t encoder_count; // weights of the encoder
    // weights of one decoder; with a parameter server the last one is the innovation's
    uint32_t decoder_count;
    uint32_t count; // all weights
};

// TERN_ERR_ARGUMENT  a setting is out of range, or a ring has more than one decoder
TERN_MUST_USE enum tern_result
tern_autoencoder_init(struct tern_autoencoder *autoencoder,
                      const struct tern_autoencoder_settings *settings);

// Draws initial weights as for built-in models (tensor/model.h): uniform by He et al. 2015, the same for one seed on
// every platform. weights: count.
void tern_autoencoder_init_weights(const struct tern_autoencoder *autoencoder, uint64_t seed,
                                   float *weights);

// Checks that a received vector can be weights[0..expected): the encoder's (expected = encoder_count), a decoder's,
// or all. Weights travel under the codec float32 of docs/FORMAT.md.
// TERN_ERR_MODEL_MISMATCH  count is not `expected`; TERN_ERR_NON_FINITE
TERN_MUST_USE enum tern_result tern_autoencoder_check_weights(const float *weights, size_t count,
                                                              uint32_t expected);

// Returns the code's length for `length` values: `channels` per 16 values, rounded up. 0: encode() refuses this
// length.
size_t tern_autoencoder_code_length(const struct tern_autoencoder *autoencoder, size_t length);

// Returns the root mean square of the values, by which they are divided before the encoder and multiplied after the
// decoder. 0: all values are 0; their code and the decoded values are then zeros. NaN: a value is not finite. With a
// parameter server each node sends its own scale with its innovation. In a ring all nodes use the scale of the node
// that chose the indices, so that codes have one unit and can be averaged.
float tern_autoencoder_scale(const float *values, size_t length);

// Returns the bytes of workspace for encode() and decode(). 0: the length is 0 or above TERN_AUTOENCODER_MAX_LENGTH,
// or the size is beyond size_t.
size_t tern_autoencoder_workspace(const struct tern_autoencoder *autoencoder, size_t length);

// code = E(values / scale). A length that is no multiple of 16 is padded with zeros.
// weights: encoder_count. workspace: any alignment. code: tern_autoencoder_code_length() floats.
// On an error nothing is written to code.
// TERN_ERR_ARGUMENT    length is 0; scale is negative
// TERN_ERR_TOO_LARGE   length is above TERN_AUTOENCODER_MAX_LENGTH, or its workspace beyond size_t
// TERN_ERR_NO_SPACE    the workspace is smaller than tern_autoencoder_workspace() says
// TERN_ERR_NON_FINITE  a value or the scale is not finite, or the code overflows
TERN_MUST_USE enum tern_result tern_autoencoder_encode(const struct tern_autoencoder *autoencoder,
                                                       const float *weights, const float *values,
                                                       size_t length, float scale, void *workspace,
                                                       size_t workspace_size, float *code);

// values = scale * D(code, innovation / scale).
// weights: decoder_count, those of one decoder: all weights + encoder_count + node * decoder_count.
// code: of one node (parameter server), or the mean of all nodes' (ring). innovation: [length], the node's largest
// values and 0 elsewhere (parameter server); NULL in a ring. values: [length], may be the innovation itself.
// On an error nothing is written to values.
// TERN_ERR_ARGUMENT    length is 0; scale is negative; innovation is NULL, or is not in a ring
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_SPACE, TERN_ERR_NON_FINITE  as above, of code and innovation
TERN_MUST_USE enum tern_result tern_autoencoder_decode(const struct tern_autoencoder *autoencoder,
                                                       const float *weights, const float *code,
                                                       const float *innovation, size_t length,
                                                       float scale, void *workspace,
                                                       size_t workspace_size, float *values);

// Training by SGD with momentum. The paper trains for 200 to 300 steps.
struct tern_autoencoder_training {
    float learning_rate; // >= 0
    float momentum;      // [0, 1); 0 in the paper
    float clip;          // largest norm of the gradient; 0: no limit
    // weight of the similarity loss beside the reconstruction loss, lambda_2 of equation 7; the paper's: 0.5. Unused in a
    // ring
    float similarity;
};

// Data of one step: the values of all nodes in one round.
struct tern_autoencoder_round {
    size_t nodes;                    // >= 1; the number of decoders if each node has one
    size_t length;                   // values of each node
    const float *const *values;      // [nodes][length]
    const float *const *innovations; // [nodes][length]; NULL in a ring
    // node whose code is decoded for all (parameter server), or whose scale all nodes use (ring)
    size_t common;
};

// Losses as mean squares, relative to the mean square of a node's values (ring: of the node `common`).
struct tern_autoencoder_losses {
    // over nodes and values (equation 6); in a ring over the mean values (equation 11)
    float reconstruction;
    float similarity; // over pairs of nodes and numbers of their codes (equation 5); 0 in a ring
};

// Returns the bytes of workspace for train_step(), as tern_autoencoder_workspace(). nodes >= 1.
size_t tern_autoencoder_training_workspace(const struct tern_autoencoder *autoencoder,
                                           size_t length, size_t nodes);

// One step down the gradient of reconstruction + similarity weight * similarity (equations 5 to 7, 11); losses are
// those before the step. weights, velocity: count; velocity is zeros before the first step.
// On an error weights and velocity are unchanged.
// TERN_ERR_ARGUMENT    a member is outside its range; the number of nodes is not that of decoders; innovations are
//                      NULL, or are not in a ring
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_SPACE, TERN_ERR_NON_FINITE  as above
// TERN_ERR_TRAINER     it diverged: a loss or a weight would not be finite
TERN_MUST_USE enum tern_result tern_autoencoder_train_step(
    const struct tern_autoencoder *autoencoder, const struct tern_autoencoder_training *training,
    const struct tern_autoencoder_round *round, float *weights, float *velocity, void *workspace,
    size_t workspace_size, struct tern_autoencoder_losses *losses);

#endif
