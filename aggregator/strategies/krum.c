// Krum and Multi-Krum (Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries, NIPS 2017) take
// only the updates that lie nearest to other updates. All updates weigh the same, whatever examples and steps they
// claim.
#include "strategies/strategy.h"

#include <stdlib.h>
#include <string.h>

// A squared distance is the sum of LANES partial sums, one for each remainder of the coordinate's index, in ascending
// order. So the distance's bits do not depend on the division into blocks, and a processor adds to several lanes at
// once.
#define LANES 8

// Number of coordinates that are compared between all updates before the next coordinates, so that they stay in the
// cache.
#define TILE 1024

// Layout of the scratch memory. `squares` keeps its content from block to block; the other arrays are used to choose
// updates.
struct krum {
    double (*squares)[LANES]; // squared distance of each pair of updates, at index pair_of()
    double *scores;           // score of each update
    double *distances;        // squared distances from one update to the other updates
    bool *chosen;
};

static uint64_t pairs_of(uint32_t updates)
{
    return (uint64_t)updates * (updates - 1) / 2;
}

// Returns the index of a pair of updates. Requires one < other.
static size_t pair_of(uint32_t one, uint32_t other)
{
    return (size_t)(pairs_of(other) + one);
}

static uint64_t size_of_scratch(uint32_t updates)
{
    return pairs_of(updates) * LANES * sizeof(double) +
           (uint64_t)updates * (2 * sizeof(double) + sizeof(bool));
}

static struct krum krum_in(void *scratch, uint32_t updates)
{
    struct krum krum = {.squares = scratch};
    krum.scores = &krum.squares[pairs_of(updates)][0];
    krum.distances = krum.scores + updates;
    void *rest = krum.distances + updates;
    krum.chosen = rest;
    return krum;
}

// --- Attackers

// Returns f, the number of attackers in a round of `updates`. The share is a float32: + 1e-6 makes a fifth of ten 2,
// not 1.99999998.
static uint32_t attackers_of(const struct tern_strategy_rule *rule, uint32_t updates)
{
    double share = (double)rule->parameters[TERN_STRATEGY_ATTACKERS];
    return (uint32_t)((double)updates * share + 1e-6);
}

// Returns the least n for which proposition 4.2 holds: 2 f + 2 < n.
static uint32_t least_updates(const struct tern_strategy_rule *rule, uint32_t updates)
{
    return 2 * attackers_of(rule, updates) + 3;
}

// Returns f, or less if a round of so few updates tolerates fewer attackers.
static uint32_t attackers_tolerated(const struct tern_strategy_rule *rule, uint32_t updates)
{
    uint32_t attackers = attackers_of(rule, updates);
    uint32_t most = updates > 3 ? (updates - 3) / 2 : 0;
    return attackers < most ? attackers : most;
}

// --- Distances

static void add_squares(const float *one, const float *other, uint32_t from, uint32_t width,
                        double squares[LANES])
{
    double sums[LANES];
    uint32_t i = 0;
    memcpy(sums, squares, sizeof sums);
    for (; i < width && (from + i) % LANES != 0; i++) {
        double apart = (double)(one[i] - other[i]);
        sums[(from + i) % LANES] += apart * apart;
    }
    for (; width - i >= LANES; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            double apart = (double)(one[i + lane] - other[i + lane]);
            sums[lane] += apart * apart;
        }
    }
    for (uint32_t lane = 0; i < width; i++, lane++) {
        double apart = (double)(one[i] - other[i]);
        sums[lane] += apart * apart;
    }
    memcpy(squares, sums, sizeof sums);
}

static void add_tile(const struct krum *krum, const struct tern_strategy_block *block,
                     uint32_t from, uint32_t width)
{
    for (uint32_t other = 1; other < block->updates; other++) {
        const float *values = &block->values[(size_t)other * block->width + from];
        for (uint32_t one = 0; one < other; one++) {
            add_squares(&block->values[(size_t)one * block->width + from], values,
                        block->first + from, width, krum->squares[pair_of(one, other)]);
        }
    }
}

static void add_block(const struct krum *krum, const struct tern_strategy_block *block)
{
    if (block->first == 0) {
        memset(krum->squares, 0, (size_t)pairs_of(block->updates) * sizeof krum->squares[0]);
    }
    for (uint32_t from = 0; from < block->width; from += TILE) {
        const uint32_t left = block->width - from;
        add_tile(krum, block, from, left < TILE ? left : TILE);
    }
}

static double distance_of(const struct krum *krum, uint32_t one, uint32_t other)
{
    const double *sums = krum->squares[one < other ? pair_of(one, other) : pair_of(other, one)];
    double sum = 0.0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        sum += sums[lane];
    }
    return sum;
}

// --- Choosing

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns the update's score: the sum of its squared distances to the n - f - 2 nearest other updates.
static double score_of(const struct krum *krum, uint32_t update, uint32_t updates,
                       uint32_t attackers)
{
    const uint32_t near = updates - attackers > 2 ? updates - attackers - 2 : 0;
    uint32_t count = 0;
    double score = 0.0;
    for (uint32_t other = 0; other < updates; other++) {
        if (other != update) {
            krum->distances[count++] = distance_of(krum, update, other);
        }
    }
    qsort(krum->distances, count, sizeof krum->distances[0], compare);
    for (uint32_t i = 0; i < near; i++) {
        score += krum->distances[i];
    }
    return score;
}

// Chooses the update of least score among those not chosen yet; in a tie, the first of them.
static void choose_next(const struct krum *krum, uint32_t updates)
{
    uint32_t best = updates;
    for (uint32_t i = 0; i < updates; i++) {
        if (!krum->chosen[i] && (best == updates || krum->scores[i] < krum->scores[best])) {
            best = i;
        }
    }
    krum->chosen[best] = true;
}

static void choose_updates(const struct krum *krum, uint32_t updates, uint32_t attackers,
                           uint32_t wanted)
{
    for (uint32_t i = 0; i < updates; i++) {
        krum->scores[i] = score_of(krum, i, updates, attackers);
        krum->chosen[i] = false;
    }
    for (uint32_t i = 0; i < wanted; i++) {
        choose_next(krum, updates);
    }
}

// --- Both passes

// Sets acc[0..width) to the mean of the chosen updates, at the block's coordinates from `from` on.
static void take_tile(const struct krum *krum, const struct tern_strategy_block *block,
                      uint32_t from, uint32_t width, uint32_t chosen, float *acc)
{
    double sums[TILE] = {0.0};
    for (uint32_t update = 0; update < block->updates; update++) {
        const float *values = &block->values[(size_t)update * block->width + from];
        for (uint32_t i = 0; krum->chosen[update] && i < width; i++) {
            sums[i] += (double)values[i];
        }
    }
    for (uint32_t i = 0; i < width; i++) {
        acc[i] = (float)(sums[i] / (double)chosen);
    }
}

static void take_chosen(const struct krum *krum, const struct tern_strategy_block *block,
                        uint32_t chosen, float *acc)
{
    for (uint32_t from = 0; from < block->width; from += TILE) {
        const uint32_t left = block->width - from;
        take_tile(krum, block, from, left < TILE ? left : TILE, chosen, acc + block->first + from);
    }
}

// Sets memory.acc to the mean of the `wanted` updates with the least scores.
static void combine_nearest(struct tern_strategy_sums *sums,
                            const struct tern_strategy_block *block, uint32_t wanted)
{
    const struct krum krum = krum_in(sums->memory.scratch, block->updates);
    if (block->pass == 1) {
        take_chosen(&krum, block, wanted, sums->memory.acc);
        return;
    }
    add_block(&krum, block);
    if (block->first + block->width == sums->model->count) {
        choose_updates(&krum, block->updates,
                       attackers_tolerated(&sums->totals.rule, block->updates), wanted);
    }
}

static void combine_one(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    combine_nearest(sums, block, 1);
}

static void combine_most(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    const uint32_t attackers = attackers_tolerated(&sums->totals.rule, block->updates);
    combine_nearest(sums, block, block->updates - attackers);
}

// Krum (section 4, "The Krum Function"): of n updates, at most f of which come from attackers, takes the update with
// the least sum of squared distances to its n - f - 2 nearest other updates; in a tie, the first one by client id. f is
// the fraction `attackers` of the updates, rounded down.
const struct tern_strategy tern_strategy_krum = {
    .name = "krum",
    .parameters = TERN_PARAMETER_BIT(ATTACKERS),
    .server_learning_rate = 1.0F,
    .least_updates = least_updates,
    .passes = 2,
    .scratch = size_of_scratch,
    .combine = combine_one,
};

// Multi-Krum (section 6, "Experimental Evaluation"): the mean of the m updates of least score, with m = n - f as in the
// paper.
const struct tern_strategy tern_strategy_multikrum = {
    .name = "multikrum",
    .parameters = TERN_PARAMETER_BIT(ATTACKERS),
    .server_learning_rate = 1.0F,
    .least_updates = least_updates,
    .passes = 2,
    .scratch = size_of_scratch,
    .combine = combine_most,
};
