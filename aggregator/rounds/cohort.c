#include "rounds/cohort.h"

#include "util/prng.h"
#include <stdlib.h>

// At most `most`.
static uint32_t rounded_up(double number, uint32_t most)
{
    if (number >= (double)most) {
        return most;
    }
    uint32_t whole = (uint32_t)number;
    return (double)whole < number ? whole + 1 : whole;
}

uint32_t tern_cohort_target(uint32_t cohort, double fraction, uint32_t eligible)
{
    uint32_t share = rounded_up(fraction * (double)eligible, eligible);
    return share > cohort ? share : cohort;
}

uint32_t tern_cohort_size(uint32_t target, double over_selection, uint32_t eligible)
{
    return rounded_up((double)target * (1.0 + over_selection), eligible);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void tern_cohort_sample(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                        uint32_t count, uint32_t want)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_COHORT, round, attempt);
    for (uint32_t i = 0; i < want; i++) {
        uint32_t j = i + tern_prng_below(&rng, count - i);
        uint64_t drawn = ids[j];
        ids[j] = ids[i];
        ids[i] = drawn;
    }
    if (want > 1) {
        qsort(ids, want, sizeof ids[0], ascending);
    }
}
