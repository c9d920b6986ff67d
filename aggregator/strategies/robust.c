// Strategies that up to a share of hostile or broken clients cannot pull away (Yin et al., ICML
// 2018). All updates weigh the same, whatever they claim of their examples and steps.
#include "strategies/strategy.h"

#include <stdlib.h>
#include <string.h>

// Values are sorted as whole numbers that have the order of the floats. That order is total, so the
// result does not depend on a library's sort: -0 comes before 0.
static uint32_t key_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

static float value_of(uint32_t key)
{
    uint32_t bits = (key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// How many of n are left out on each side; at least one is kept, of an even number two.
static uint32_t cut_of(uint32_t n, double share)
{
    uint32_t most = (n - 1) / 2;
    // A share is a float32: a fifth of ten is 2, not 1.99999998.
    uint32_t cut = (uint32_t)((double)n * share + 1e-6);
    return cut < most ? cut : most;
}

static float middle_mean(uint32_t *keys, uint32_t n, double share)
{
    uint32_t cut = cut_of(n, share);
    double sum = 0.0;
    qsort(keys, n, sizeof keys[0], compare);
    for (uint32_t i = cut; i < n - cut; i++) {
        sum += (double)value_of(keys[i]);
    }
    return (float)(sum / (double)(n - 2 * cut));
}

static size_t keys_of_a_coordinate(uint32_t updates)
{
    return updates * sizeof(uint32_t);
}

// share: of the updates, left out on each side of the sorted values. The mean of what is left is
// taken; from 0.5 on that is the median.
static void combine_middle(struct tern_strategy_sums *sums, const struct tern_strategy_block *block,
                           double share)
{
    uint32_t *keys = sums->memory.scratch;
    for (uint32_t i = 0; i < block->width; i++) {
        for (uint32_t update = 0; update < block->updates; update++) {
            keys[update] = key_of(block->values[(size_t)update * block->width + i]);
        }
        sums->memory.acc[block->first + i] = middle_mean(keys, block->updates, share);
    }
}

static void combine_median(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    combine_middle(sums, block, 0.5);
}

// FedMedian (definition 1): each coordinate moves by the median of the updates, unweighted; of an
// even number by the mean of the middle two.
const struct tern_strategy tern_strategy_fedmedian = {
    .name = "fedmedian",
    .server_learning_rate = 1.0F,
    .passes = 1,
    .scratch = keys_of_a_coordinate,
    .combine = combine_median,
};

static void combine_trimmed(struct tern_strategy_sums *sums,
                            const struct tern_strategy_block *block)
{
    combine_middle(sums, block, (double)sums->totals.rule.parameters[TERN_STRATEGY_TRIM]);
}

// FedTrimmedAvg (definition 2): each coordinate moves by the unweighted mean of the updates without
// the largest and the smallest; `trim` is the share left out on each side, rounded down to whole
// updates.
const struct tern_strategy tern_strategy_fedtrimmedavg = {
    .name = "fedtrimmedavg",
    .parameters = UINT32_C(1) << TERN_STRATEGY_TRIM,
    .server_learning_rate = 1.0F,
    .passes = 1,
    .scratch = keys_of_a_coordinate,
    .combine = combine_trimmed,
};
