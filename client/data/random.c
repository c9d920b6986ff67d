#include "data/random.h"
#include "util/math.h"
#include "util/sqrt.h"

static float root(float x)
{
    return (float)tern_sqrt((double)x);
}

// Uniform in (0, 1]: a logarithm can be taken of it.
static float above_zero(struct tern_prng *rng)
{
    return 1.0f - tern_prng_float(rng);
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
