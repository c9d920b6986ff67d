// Convolutions one after the other over one sequence, forwards and backwards: what an encoder and a decoder both are.
// A leaky relu follows each but the last. Sequences lie position by position, [positions][channels], with a position of
// zeros before and behind, so that the three positions that a convolution looks at are one row of a matrix, which
// needs no copy: rows overlap. A transposed convolution is the adjoint of one, and its backward pass is that one.
// Called by this folder alone. Not thread-safe; chains in different memory are independent.
#ifndef TERN_LGC_CHAIN_H
#define TERN_LGC_CHAIN_H

#include "lgc/autoencoder.h"
#include "util/arena.h"

enum { TERN_CHAIN_MAX_LAYERS = TERN_AUTOENCODER_DECODER_LAYERS };

struct tern_chain {
    const struct tern_autoencoder_layer *layers;
    uint32_t layer_count;
    size_t positions; // of the input
    float *in;        // where the input is put: its first position, behind the zeros
    float *out[TERN_CHAIN_MAX_LAYERS]; // each layer's output, likewise
    float *delta[2];                   // gradients by a layer's output
    float *panel;                      // tern_gemm_transposed()
};

// Takes what forward() works in, and backward() too where that is wanted, from the arena. Pointers are NULL where the
// memory was too small. Zeros around sequences are written by forward() and backward().
void tern_chain_place(struct tern_chain *chain, const struct tern_autoencoder_layer *layers,
                      uint32_t layer_count, size_t positions, bool backward,
                      struct tern_arena *arena);

// Computes every layer's output from chain->in. weights: where the layers' offsets count from.
void tern_chain_forward(struct tern_chain *chain, const float *weights);

// The last layer's output: [tern_chain_out_positions()][channels].
float *tern_chain_output(const struct tern_chain *chain);
size_t tern_chain_out_positions(const struct tern_chain *chain);

// Where backward() takes the gradient by the output from.
float *tern_chain_output_delta(const struct tern_chain *chain);

// After forward() and the gradient by the output: adds those by the weights to gradient. Returns the gradient by the
// input, [positions][channels], where that is wanted, else NULL.
const float *tern_chain_backward(struct tern_chain *chain, const float *weights, float *gradient,
                                 bool by_input);

#endif
