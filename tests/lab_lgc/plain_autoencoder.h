// The autoencoder once more, in double, a convolution as its definition says it: what the fast one is compared with.
// And rounds of random values to try either on.
#ifndef TERN_TESTS_LGC_PLAIN_AUTOENCODER_H
#define TERN_TESTS_LGC_PLAIN_AUTOENCODER_H

#include "lgc/autoencoder.h"

enum { MOST_NODES = 4, MOST_VALUES = 300, MOST_CODE = 20 * 6, MOST_WEIGHTS = 20000 };

// values[0..length), of scale 1 and padded to whole positions by zeros -> code.
void plain_encode(const struct tern_autoencoder *autoencoder, const double *weights,
                  const double *values, size_t length, double *code);

// code and innovation (NULL in a ring) -> values[0..length). weights: the decoder's.
void plain_decode(const struct tern_autoencoder *autoencoder, const double *weights,
                  const double *code, const double *innovation, size_t length, double *values);

// Both losses of all weights, from the sums of equations 5, 6 and 11 over all pairs.
struct plain_losses {
    double reconstruction;
    double similarity;
};
struct plain_losses plain_losses(const struct tern_autoencoder *autoencoder, const double *weights,
                                 const struct tern_autoencoder_round *round);

// Random values of nodes, alike in part; a tenth of each, its largest, is its innovation.
struct random_round {
    struct tern_autoencoder_round round;
    const float *values[MOST_NODES];
    const float *innovations[MOST_NODES];
    float value[MOST_NODES][MOST_VALUES];
    float innovation[MOST_NODES][MOST_VALUES];
};
void make_round(struct random_round *made, enum tern_autoencoder_pattern pattern, size_t nodes,
                size_t length, uint32_t stream);

// Initial weights with biases other than 0.
void make_weights(const struct tern_autoencoder *autoencoder, uint64_t seed, float *weights);

// CRC-32C of the values' bits in little-endian order.
uint32_t checksum_of_floats(const float *values, size_t count);

#endif
