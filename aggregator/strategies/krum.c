// Krum and Multi-Krum (Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries,
// NIPS 2017): the updates that lie nearest to others are taken, whole. All weigh the same, whatever they
// claim of their examples and steps.
#include "strategies/strategy.h"

#include <stdlib.h>
#include <string.h>

// The squared distance of two updates is the sum of this many sums, each of every so many-th
// coordinate, in ascending order. So it has the same bits however blocks are cut, and a processor may
// add to several at once.
#define LANES 8

// Coordinates of all updates that are compared with each other before the next ones: these few are
// fetched from memory once.
#define TILE 1024

// What is kept between blocks; then the scratch of choosing.
struct krum {
    double (*squares)[LANES]; // of each pair; pair_of()
    double *scores;           // of each update
    double *distances;        // of one update to the others
    bool *chosen;
};

static uint64_t pairs_of(uint32_t updates)
{
    return (uint64_t)updates * (updates - 1) / 2;
}

// one < other.
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

// Of so many updates, at most. A share is a float32: a fifth of ten is 2, not 1.99999998.
static uint32_t attackers_of(const struct tern_strategy_rule *rule, uint32_t updates)
{
    double share = (double)rule->parameters[TERN_STRATEGY_ATTACKERS];
    return (uint32_t)((double)updates * share + 1e-6);
}

// 2 f + 2 < n, proposition 4.2.
static uint32_t least_updates(const struct tern_strategy_rule *rule, uint32_t updates)
{
    return 2 * attackers_of(rule, updates) + 3;
}

// As many as a round of so few can bear, where it cannot bear them all.
static uint32_t attackers_borne(const struct tern_strategy_rule *rule, uint32_t updates)
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

// The sum of the squared distances to the n - f - 2 nearest others.
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

// The one of least score that is not chosen yet; of equal ones the first.
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

static void choose(const struct krum *krum, uint32_t updates, uint32_t attackers, uint32_t wanted)
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

// acc[0..width): the mean of what was chosen, at the coordinates of the block from `from` on.
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

// The mean of as many as are wanted, of those with the least scores.
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
        choose(&krum, block->updates, attackers_borne(&sums->totals.rule, block->updates), wanted);
    }
}

static void combine_one(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    combine_nearest(sums, block, 1);
}

static void combine_most(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    const uint32_t attackers = attackers_borne(&sums->totals.rule, block->updates);
    combine_nearest(sums, block, block->updates - attackers);
}

// Krum (section 4, "The Krum Function"): of n updates of which at most f come from attackers, the one
// whose n - f - 2 nearest others are nearest to it, by the sum of their squared distances. f is the
// share `attackers` of the updates, rounded down. Of equal ones the first, by client.
const struct tern_strategy tern_strategy_krum = {
    .name = "krum",
    .parameters = UINT32_C(1) << TERN_STRATEGY_ATTACKERS,
    .server_learning_rate = 1.0F,
    .least_updates = least_updates,
    .passes = 2,
    .scratch = size_of_scratch,
    .combine = combine_one,
};

// Multi-Krum (section 6, "Experimental Evaluation"): the mean of the m updates of least score, where
// m = n - f as there.
const struct tern_strategy tern_strategy_multikrum = {
    .name = "multikrum",
    .parameters = UINT32_C(1) << TERN_STRATEGY_ATTACKERS,
    .server_learning_rate = 1.0F,
    .least_updates = least_updates,
    .passes = 2,
    .scratch = size_of_scratch,
    .combine = combine_most,
};
