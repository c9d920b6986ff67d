#include "lab_lgc/plain_autoencoder.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include "util/prng.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST = (MOST_VALUES + 16) * 16 };

// Output position u of a convolution sums inputs stride * u + k - width / 2; of a transposed one, inputs t with
// stride * t + k - width / 2 = u.
static double tap(const struct tern_autoencoder_layer *layer, const double *weights,
                  const double *in, size_t positions, long u, uint32_t o)
{
    const long width = (long)layer->width;
    const long half = width / 2;
    const long stride = (long)layer->stride;
    double sum = weights[layer->offset + layer->width * layer->inputs * layer->outputs + o];
    for (long t = 0; t < (long)positions; t++) {
        const long k = layer->transposed ? u + half - stride * t : t + half - stride * u;
        if (k < 0 || k >= width) {
            continue;
        }
        for (uint32_t i = 0; i < layer->inputs; i++) {
            const size_t at = layer->transposed
                                  ? (i * layer->width + (size_t)k) * layer->outputs + o
                                  : (o * layer->width + (size_t)k) * layer->inputs + i;
            sum += weights[layer->offset + at] * in[(size_t)t * layer->inputs + i];
        }
    }
    return sum;
}

static void run(const struct tern_autoencoder_layer *layers, uint32_t count, const double *weights,
                size_t positions, double *sequence)
{
    static double next[MOST];
    for (uint32_t l = 0; l < count; l++) {
        const struct tern_autoencoder_layer *layer = &layers[l];
        const size_t out =
            layer->transposed ? positions * layer->stride : positions / layer->stride;
        assert(out * layer->outputs <= MOST);
        for (size_t u = 0; u < out; u++) {
            for (uint32_t o = 0; o < layer->outputs; o++) {
                const double value = tap(layer, weights, sequence, positions, (long)u, o);
                next[u * layer->outputs + o] =
                    l + 1 < count && value < 0 ? (double)0.01f * value : value;
            }
        }
        positions = out;
        memcpy(sequence, next, out * layer->outputs * sizeof *next);
    }
}

void plain_encode(const struct tern_autoencoder *autoencoder, const double *weights,
                  const double *values, size_t length, double *code)
{
    static double sequence[MOST];
    const size_t padded = (length + 15) / 16 * 16;
    memset(sequence, 0, sizeof sequence);
    memcpy(sequence, values, length * sizeof *values);
    run(autoencoder->encoder, TERN_AUTOENCODER_ENCODER_LAYERS, weights, padded, sequence);
    memcpy(code, sequence, padded / 16 * autoencoder->settings.channels * sizeof *code);
}

void plain_decode(const struct tern_autoencoder *autoencoder, const double *weights,
                  const double *code, const double *innovation, size_t length, double *values)
{
    static double sequence[MOST];
    const size_t positions = (length + 15) / 16;
    memcpy(sequence, code, positions * autoencoder->settings.channels * sizeof *code);
    run(autoencoder->decoder, TERN_AUTOENCODER_DECODER_LAYERS, weights, positions, sequence);
    for (size_t i = 0; i < length; i++) {
        values[i] = sequence[i];
        if (innovation != NULL) {
            values[i] += weights[autoencoder->decoder_count - 1] * innovation[i];
        }
    }
}

static double scale_of(const float *values, size_t length)
{
    double sum = 0;
    for (size_t i = 0; i < length; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sqrt(sum / (double)length);
}

static double squared_error(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return sum;
}

struct plain_losses plain_losses(const struct tern_autoencoder *autoencoder, const double *weights,
                                 const struct tern_autoencoder_round *round)
{
    static double values[MOST_NODES][MOST_VALUES], codes[MOST_NODES][MOST_CODE];
    static double innovation[MOST_VALUES], mean[MOST_VALUES], code[MOST_CODE], out[MOST_VALUES];
    const bool ring = autoencoder->settings.pattern == TERN_AUTOENCODER_RING_ALLREDUCE;
    const size_t length = round->length;
    const size_t count = (length + 15) / 16 * autoencoder->settings.channels;
    const double nodes = (double)round->nodes;
    struct plain_losses losses = {0, 0};
    memset(mean, 0, sizeof mean);
    memset(code, 0, sizeof code);
    for (size_t k = 0; k < round->nodes; k++) {
        const double scale = scale_of(round->values[ring ? round->common : k], length);
        for (size_t i = 0; i < length; i++) {
            values[k][i] = (double)round->values[k][i] / scale;
            mean[i] += values[k][i] / nodes;
        }
        plain_encode(autoencoder, weights, values[k], length, codes[k]);
        for (size_t i = 0; i < count; i++) {
            code[i] += codes[k][i] / nodes;
        }
    }
    const double *decoder = weights + autoencoder->encoder_count;
    if (ring) {
        plain_decode(autoencoder, decoder, code, NULL, length, out);
        losses.reconstruction = squared_error(out, mean, length) / (double)length;
        return losses;
    }
    for (size_t k = 0; k < round->nodes; k++) {
        const double scale = scale_of(round->values[k], length);
        for (size_t i = 0; i < length; i++) {
            innovation[i] = (double)round->innovations[k][i] / scale;
        }
        plain_decode(autoencoder,
                     decoder +
                         (autoencoder->settings.decoders > 1 ? k * autoencoder->decoder_count : 0),
                     codes[round->common], innovation, length, out);
        losses.reconstruction += squared_error(out, values[k], length) / (nodes * (double)length);
        for (size_t m = 0; m < round->nodes; m++) {
            if (m != k) {
                losses.similarity += squared_error(codes[k], codes[m], count) /
                                     (nodes * (nodes - 1) * (double)count);
            }
        }
    }
    return losses;
}

// The tenth of largest magnitude, found by counting how many are larger.
static void take_innovation(const float *values, size_t length, float *innovation)
{
    for (size_t i = 0; i < length; i++) {
        size_t larger = 0;
        for (size_t j = 0; j < length; j++) {
            larger += fabsf(values[j]) > fabsf(values[i]);
        }
        innovation[i] = larger < length / 10 + 1 ? values[i] : 0.0f;
    }
}

void make_round(struct random_round *made, enum tern_autoencoder_pattern pattern, size_t nodes,
                size_t length, uint32_t stream)
{
    struct tern_prng rng;
    float common[MOST_VALUES];
    assert(nodes <= MOST_NODES && length <= MOST_VALUES);
    tern_prng_init(&rng, 21, TERN_PRNG_TEST, stream, 0);
    memset(made, 0, sizeof *made);
    for (size_t i = 0; i < length; i++) {
        common[i] = tern_prng_float(&rng) - 0.5f;
    }
    for (size_t k = 0; k < nodes; k++) {
        for (size_t i = 0; i < length; i++) {
            made->value[k][i] = 0.01f * (common[i] + 0.5f * (tern_prng_float(&rng) - 0.5f));
        }
        take_innovation(made->value[k], length, made->innovation[k]);
        made->values[k] = made->value[k];
        made->innovations[k] = made->innovation[k];
    }
    const bool ring = pattern == TERN_AUTOENCODER_RING_ALLREDUCE;
    made->round = (struct tern_autoencoder_round){
        .nodes = nodes,
        .length = length,
        .values = made->values,
        .innovations = ring ? NULL : made->innovations,
        .common = nodes - 1,
    };
}

void make_weights(const struct tern_autoencoder *autoencoder, uint64_t seed, float *weights)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_TEST, 99, 0);
    tern_autoencoder_init_weights(autoencoder, seed, weights);
    for (uint32_t i = 0; i < autoencoder->count; i++) {
        weights[i] = weights[i] == 0.0f ? 0.2f * (tern_prng_float(&rng) - 0.5f) : weights[i];
    }
}

uint32_t checksum_of_floats(const float *values, size_t count)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        tern_put_f32(bytes, values[i]);
        crc = tern_crc32c(crc, bytes, sizeof bytes);
    }
    return crc;
}
