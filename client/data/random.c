#include "data/random.h"
#include "util/math.h"

static float root(float x)
{
    return (float)tern_sqrt((double)x);
}

// Draws uniformly from (0, 1], whose logarithm is finite.
static float above_zero(struct tern_prng *rng)
{
    return 1.0f - tern_prng_float(rng);
}

float tern_random_between(struct tern_prng *rng, float low, float high)
{
    return low + (high - low) * tern_prng_float(rng);
}

float tern_random_normal(struct tern_prng *rng)
{
    for (;;) {
        float x = 2.0f * tern_prng_float(rng) - 1.0f;
        float y = 2.0f * tern_prng_float(rng) - 1.0f;
        float s = x * x + y * y;
        if (s > 0.0f && s < 1.0f) {
            return x * root(-2.0f * tern_logf(s) / s);
        }
    }
}

float tern_random_log_gamma(struct tern_prng *rng, float shape)
{
    if (shape < 1.0f) {
        // Gamma(a) = Gamma(a + 1) * U^(1/a)
        float whole = tern_random_log_gamma(rng, shape + 1.0f);
        return whole + tern_logf(above_zero(rng)) / shape;
    }
    float d = shape - 1.0f / 3.0f;
    float c = 1.0f / root(9.0f * d);
    for (;;) {
        float x = tern_random_normal(rng);
        float v = 1.0f + c * x;
        if (v <= 0.0f) {
            continue;
        }
        float log_v = 3.0f * tern_logf(v);
        v = v * v * v;
        if (tern_logf(above_zero(rng)) < 0.5f * x * x + d - d * v + d * log_v) {
            return tern_logf(d) + log_v;
        }
    }
}

float tern_random_exponential(struct tern_prng *rng)
{
    return -tern_logf(above_zero(rng));
}

// Gamma draws of a small shape underflow float32, so the shares are computed from the draws' logarithms.
void tern_random_shares(struct tern_prng *rng, float alpha, float *share, uint32_t count)
{
    float most = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        share[i] = tern_random_log_gamma(rng, alpha);
        most = i == 0 || share[i] > most ? share[i] : most;
    }
    for (uint32_t i = 0; i < count; i++) {
        share[i] = tern_expf(share[i] - most);
    }
}

uint32_t tern_random_index(struct tern_prng *rng, const float *share, uint32_t count)
{
    float sum = 0.0f;
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += share[i];
        last = share[i] > 0.0f ? i : last;
    }
    float at = tern_prng_float(rng) * sum;
    for (uint32_t i = 0; i < last; i++) {
        if (at < share[i]) {
            return i;
        }
        at -= share[i];
    }
    return last;
}
