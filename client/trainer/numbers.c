// Losses of models whose outputs are numbers: one that is compared with the example's target, or as many as
// the example has values, which they are compared with (an autoencoder: Hinton and Salakhutdinov 2006).
#include "trainer/network.h"

#if TERN_LOSSES

static const float *outputs_of(const struct tern_network *network, uint32_t i)
{
    const float *out = network->layers[network->layer_count - 1].out;
    return out + (size_t)i * network->class_count;
}

// What they are compared with.
static const float *wanted_of(const struct tern_network *network, uint32_t i)
{
    return network->loss == TERN_LOSS_RECONSTRUCTION
               ? network->features + (size_t)i * network->feature_count
               : network->targets + i;
}

float tern_numbers_output(const struct tern_network *network, uint32_t i)
{
    return outputs_of(network, i)[0];
}

// A NaN stays one.
double tern_numbers_loss(const struct tern_network *network, uint32_t i)
{
    const float *out = outputs_of(network, i);
    const float *wanted = wanted_of(network, i);
    const uint32_t n = network->class_count;
    if (network->loss == TERN_LOSS_MAE) {
        const double off = (double)out[0] - (double)wanted[0];
        return off < 0.0 ? -off : off;
    }
    double sum = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        const double off = (double)out[k] - (double)wanted[k];
        sum += off * off;
    }
    return sum / (double)n;
}

// The slope of |x|, and 0 at its corner; a NaN stays one.
static float slope(float x)
{
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

void tern_numbers_delta(const struct tern_network *network, uint32_t count, float weight,
                        float *delta)
{
    const uint32_t n = network->class_count;
    for (uint32_t i = 0; i < count; i++) {
        const float *out = outputs_of(network, i);
        const float *wanted = wanted_of(network, i);
        float *d = delta + (size_t)i * n;
        for (uint32_t k = 0; k < n; k++) {
            const float off = out[k] - wanted[k];
            d[k] = (network->loss == TERN_LOSS_MAE ? slope(off) : 2.0f * off / (float)n) * weight;
        }
    }
}

#endif
