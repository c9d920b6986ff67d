// Strategies whose result a fraction of hostile or broken clients cannot move far (Yin et al., ICML 2018). All updates
// weigh the same, whatever examples and steps they claim.
#include "strategies/strategy.h"

#include <stdlib.h>
#include <string.h>

// Returns an integer that sorts like the float, with -0 before 0. The order is total, so the result does not depend on
// the library's sort.
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

// Returns how many of n sorted values are left out at each end. At least one value remains, or two if n is even.
static uint32_t trimmed_count(uint32_t n, double share)
{
    uint32_t most = (n - 1) / 2;
    // The share is a float32: + 1e-6 makes a fifth of ten 2, not 1.99999998.
    uint32_t cut = (uint32_t)((double)n * share + 1e-6);
    return cut < most ? cut : most;
}

static float middle_mean(uint32_t *keys, uint32_t n, uint32_t cut)
{
    double sum = 0.0;
    qsort(keys, n, sizeof keys[0], compare);
    for (uint32_t i = cut; i < n - cut; i++) {
        sum += (double)value_of(keys[i]);
    }
    return (float)(sum / (double)(n - 2 * cut));
}

// Number of neighbouring coordinates whose signs are counted in one pass: a processor fetches neighbouring values of an
// update at once.
#define GROUP 8

struct signs {
    uint32_t below[GROUP]; // number of updates whose value is below zero
    uint32_t above[GROUP];
};

static void add_signs(struct signs *signs, const float values[GROUP])
{
    for (uint32_t i = 0; i < GROUP; i++) {
        signs->below[i] += values[i] < 0.0F;
        signs->above[i] += values[i] > 0.0F;
    }
}

// Counts the signs at GROUP coordinates from `from` on, or at fewer where the block ends.
static struct signs count_signs(const struct tern_strategy_block *block, uint32_t from)
{
    const uint32_t left = block->width - from;
    struct signs signs = {{0}, {0}};
    for (uint32_t update = 0; update < block->updates; update++) {
        const float *values = &block->values[(size_t)update * block->width + from];
        float last[GROUP] = {0};
        if (left < GROUP) {
            memcpy(last, values, left * sizeof last[0]);
        }
        add_signs(&signs, left < GROUP ? last : values);
    }
    return signs;
}

static uint64_t keys_of_a_coordinate(uint32_t updates)
{
    return (uint64_t)updates * sizeof(uint32_t);
}

static float combine_coordinate(const struct tern_strategy_block *block, uint32_t at,
                                uint32_t *keys, uint32_t cut)
{
    for (uint32_t update = 0; update < block->updates; update++) {
        keys[update] = key_of(block->values[(size_t)update * block->width + at]);
    }
    return middle_mean(keys, block->updates, cut);
}

// Sets acc to the mean of the sorted values without the fraction `share` of them at each end; from 0.5 on that is the
// median. If all remaining values are zero, as at most coordinates after sparse codecs, nothing is sorted: the sum is
// +0, whatever the zeros' signs.
static void combine_middle(struct tern_strategy_sums *sums, const struct tern_strategy_block *block,
                           double share)
{
    const uint32_t cut = trimmed_count(block->updates, share);
    float *means = sums->memory.acc + block->first;
    for (uint32_t from = 0; from < block->width; from += GROUP) {
        const struct signs signs = count_signs(block, from);
        for (uint32_t i = 0; i < GROUP && from + i < block->width; i++) {
            const bool zero = signs.below[i] <= cut && signs.above[i] <= cut;
            means[from + i] =
                zero ? 0.0F : combine_coordinate(block, from + i, sums->memory.scratch, cut);
        }
    }
}

static void combine_median(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    combine_middle(sums, block, 0.5);
}

// FedMedian (definition 1): each coordinate moves by the unweighted median of the updates; if their number is even, by the
// mean of the middle two.
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

// FedTrimmedAvg (Yin et al., ICML 2018, definition 2): each coordinate moves by the unweighted mean of the updates without
// the largest and the smallest; `trim` is the fraction left out at each end, rounded down to whole updates.
const struct tern_strategy tern_strategy_fedtrimmedavg = {
    .name = "fedtrimmedavg",
    .parameters = TERN_PARAMETER_BIT(TRIM),
    .server_learning_rate = 1.0F,
    .passes = 1,
    .scratch = keys_of_a_coordinate,
    .combine = combine_trimmed,
};
