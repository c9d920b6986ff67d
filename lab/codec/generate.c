#include "generate.h"

#include "util/prng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 1, NORMAL = 0, TERNARY = 1, ROWS = 2 };

static void normal_pair(struct tern_prng *rng, float pair[2])
{
    float radius = sqrtf(-2 * logf(1 - tern_prng_float(rng)));
    float angle = 6.2831853f * tern_prng_float(rng);
    pair[0] = radius * cosf(angle);
    pair[1] = radius * sinf(angle);
}

void generate_normal(float *values, size_t count)
{
    struct tern_prng rng;
    tern_prng_init(&rng, SEED, TERN_PRNG_TEST, NORMAL, 0);
    for (size_t i = 0; i < count; i += 2) {
        float pair[2];
        normal_pair(&rng, pair);
        memcpy(values + i, pair, (count - i < 2 ? 1 : 2) * sizeof(float));
    }
}

static size_t share_of(size_t count, double density)
{
    return (size_t)llround(density * (double)count);
}

// Selection sampling (Knuth, The Art of Computer Programming, 3.4.2, algorithm S).
void generate_ternary(float *values, size_t count, double density)
{
    struct tern_prng rng;
    tern_prng_init(&rng, SEED, TERN_PRNG_TEST, TERNARY, 0);
    size_t wanted = share_of(count, density);
    for (size_t i = 0; i < count; i++) {
        bool chosen = tern_prng_below(&rng, (uint32_t)(count - i)) < wanted;
        wanted -= chosen;
        values[i] = !chosen ? 0.0f : (tern_prng_u32(&rng) & 1) != 0 ? -1.0f : 1.0f;
    }
}

static int larger_first(const void *left, const void *right)
{
    const float *a = left;
    const float *b = right;
    return (*a < *b) - (*a > *b);
}

// Replaces the `wanted` values of largest magnitude by their signs, the others by 0. Two generated values are rarely equal.
static bool keep_largest(float *values, size_t count, size_t wanted)
{
    float *magnitudes = malloc(count * sizeof(float));
    if (magnitudes == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        magnitudes[i] = fabsf(values[i]);
    }
    qsort(magnitudes, count, sizeof(float), larger_first);
    float least = wanted > 0 ? magnitudes[wanted - 1] : INFINITY;
    free(magnitudes);
    for (size_t i = 0; i < count; i++) {
        values[i] = fabsf(values[i]) < least ? 0 : copysignf(1, values[i]);
    }
    return true;
}

bool generate_rows(float *values, size_t count, size_t width, float sigma, double density)
{
    struct tern_prng rng;
    tern_prng_init(&rng, SEED, TERN_PRNG_TEST, ROWS, 0);
    generate_normal(values, count);
    for (size_t row = 0; row < count; row += width) {
        float pair[2];
        normal_pair(&rng, pair);
        float scale = expf(sigma * pair[0]);
        for (size_t i = row; i < row + width && i < count; i++) {
            values[i] *= scale;
        }
    }
    return keep_largest(values, count, share_of(count, density));
}
