// Sums of float32 numbers that are exact, and the weighted mean that is made with them: the same
// bits in every order, with whatever memory.
#include "merge/exact_mean.h"
#include "tests/cases.h"
#include "util/prng.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC "mlp:20-12-5"
#define UPDATES 24

static struct tern_model model;
static struct tern_reading_room room;

// --- One number

// The largest of each exponent, the smallest, and those around: what a bin holds is the number.
CASE(test_a_bin_holds_the_number)
{
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        static const uint32_t mantissas[] = {0, 1, 2, 0x400000, 0x7ffffe, 0x7fffff};
        for (size_t i = 0; i < 2 * sizeof mantissas / sizeof mantissas[0]; i++) {
            const uint32_t sign = (uint32_t)(i % 2) << 31;
            const float number = tern_bits_float(sign | exponent << 23 | mantissas[i / 2]);
            const struct tern_exact_term term = tern_exact_term(number);
            assert_true(term.bin < TERN_EXACT_BINS);
            assert_true(tern_exact_bin_value(term.bin, term.amount) == (double)number);
            const uint64_t magnitude = sign != 0 ? 0 - term.amount : term.amount;
            assert_true(magnitude < UINT64_C(1) << 39);
            const uint32_t bits = tern_float_bits(number) & 0x7fffffff;
            assert_true(bits >= tern_exact_bin_start(term.bin));
            assert_true(bits < tern_exact_bin_start(term.bin + 1));
            assert_true(tern_exact_amount(number, 1.0 / tern_exact_bin_unit(term.bin)) ==
                        term.amount);
        }
    }
    assert_true(tern_exact_term(INFINITY).bin >= TERN_EXACT_BINS);
    assert_true(tern_exact_term(-INFINITY).bin >= TERN_EXACT_BINS);
    assert_true(tern_exact_term(NAN).bin >= TERN_EXACT_BINS);
}

// As many as a round may have, all of them the largest of their bin.
CASE(test_a_full_bin_does_not_overflow)
{
    const float largest = ldexpf(0x1.fffffep0F, 15 - 126); // of e = 15
    const struct tern_exact_term term = tern_exact_term(largest);
    const struct tern_exact_term next = tern_exact_term(nextafterf(largest, 1.0F));
    assert_int_equal(term.bin, 0);
    assert_int_equal(next.bin, 1);
    const uint64_t sum = term.amount * TERN_EXACT_TERMS_MAX;
    assert_true(sum / TERN_EXACT_TERMS_MAX == term.amount && sum < UINT64_C(1) << 63);
    assert_true(tern_exact_bin_value(0, sum) == (double)largest * TERN_EXACT_TERMS_MAX);
    assert_true(tern_exact_bin_value(0, 0 - sum) == -(double)largest * TERN_EXACT_TERMS_MAX);
}

// --- Updates of every kind

struct update {
    struct tern_contribution contribution;
    uint8_t *container;
    size_t len;
};

static struct update updates[UPDATES];
static struct tern_strategy_totals totals;

static void make_update(struct update *update, uint32_t index, const char *spec)
{
    struct tern_codec codec;
    struct tern_prng rng;
    float *values = malloc(model.count * sizeof *values);
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, index, 0);
    // Far apart from one update to the next, so that they need several bins and round differently in
    // each order; near zero also within one.
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = ldexpf(tern_prng_float(&rng) - 0.5F, (int)(index * 5 % 60) - 40);
    }
    size_t bound = tern_container_bound(&codec, &model);
    update->container = malloc(bound);
    const struct tern_encode_context context = {.seed = 1, .round = 1, .client = index};
    assert_int_equal(tern_container_encode(&codec, &context, &model, values, update->container,
                                           bound, &update->len),
                     TERN_OK);
    update->contribution = (struct tern_contribution){
        .num_examples = 1 + index * 7919 % 1000, .local_steps = 1 + index % 3, .loss = 1.0F / 3.0F};
    free(values);
}

static int setup(void **state)
{
    static const char *const specs[] = {"3lc:s=1,clip=4,coder=range", "float32", "3lc:s=1",
                                        "density:p=0.2,coder=gaps",   "int8",    "float16"};
    (void)state;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, SPEC), TERN_OK);
    const struct tern_strategy_rule rule = {
        .strategy = &tern_strategy_fednova,
        .server_learning_rate = 1.0F,
        .parameters = {[TERN_STRATEGY_SCALE_MAX] = 2.0F},
    };
    tern_strategy_totals_init(&totals, &rule);
    for (uint32_t i = 0; i < UPDATES; i++) {
        make_update(&updates[i], i, specs[i % 6]);
        assert_int_equal(tern_strategy_count_update(&totals, &updates[i].contribution), TERN_OK);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < UPDATES; i++) {
        free(updates[i].container);
    }
    assert_int_equal(atomic_load(&room.bytes), 0);
    return 0;
}

// Takes the updates in, each number `step` after the one before, with readings or without.
static enum tern_result take(uint32_t start, uint32_t step, bool read, uint64_t memory,
                             uint32_t first, uint32_t end, float *acc)
{
    struct tern_exact_mean mean = {.model = NULL};
    enum tern_result result = TERN_OK;
    tern_exact_mean_begin(&mean, &model, &totals.rule, memory, first, end);
    for (uint32_t i = 0; i < UPDATES && result == TERN_OK; i++) {
        const struct update *update = &updates[(start + i * step) % UPDATES];
        struct tern_reading *reading = NULL;
        struct tern_codec_info info;
        if (read) {
            assert_int_equal(
                tern_reading_make(&room, &model, update->container, update->len, &info, &reading),
                TERN_OK);
        }
        result = tern_exact_mean_add(&mean, &update->contribution, update->container, update->len,
                                     reading, NULL);
        tern_reading_free(reading);
    }
    if (result == TERN_OK) {
        tern_exact_mean_take(&mean, &totals, acc);
    }
    assert_true(mean.used <= memory);
    tern_exact_mean_clear(&mean);
    return result;
}

CASE_WITH(test_every_order_gives_the_same_bits, setup, teardown)
{
    float *expected = calloc(model.count, sizeof *expected);
    float *acc = calloc(model.count, sizeof *acc);
    assert_int_equal(take(0, 1, false, UINT64_MAX, 0, model.count, expected), TERN_OK);
    static const uint32_t steps[] = {1, 5, 7, 11, 13, 23}; // without a common divisor with UPDATES
    for (uint32_t start = 0; start < UPDATES; start++) {
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            assert_int_equal(take(start, steps[i], start % 2 == 0, UINT64_MAX, 0, model.count, acc),
                             TERN_OK);
            assert_memory_equal(acc, expected, model.count * sizeof *acc);
        }
    }
    free(acc);
    free(expected);
}

CASE_WITH(test_every_part_gives_the_same_bits, setup, teardown)
{
    float *expected = calloc(model.count, sizeof *expected);
    float *acc = calloc(model.count, sizeof *acc);
    assert_int_equal(take(0, 1, false, UINT64_MAX, 0, model.count, expected), TERN_OK);
    for (uint32_t width = 1; width < model.count; width = width * 3 + 1) {
        for (uint32_t first = 0; first < model.count; first += width) {
            uint32_t end = model.count - first < width ? model.count : first + width;
            assert_int_equal(take(first, 5, first % 2 == 0, UINT64_MAX, first, end, acc), TERN_OK);
        }
        assert_memory_equal(acc, expected, model.count * sizeof *acc);
        memset(acc, 0, model.count * sizeof *acc);
    }
    free(acc);
    free(expected);
}

// Beside the same in long steps: each product to float32, all else in double.
CASE_WITH(test_the_mean_is_right, setup, teardown)
{
    float *acc = calloc(model.count, sizeof *acc);
    float *decoded = calloc(model.count, sizeof *decoded);
    double *sums = calloc(model.count, sizeof *sums);
    double *magnitudes = calloc(model.count, sizeof *magnitudes);
    for (size_t u = 0; u < UPDATES; u++) {
        const struct tern_contribution *contribution = &updates[u].contribution;
        double weight = (double)contribution->num_examples / (double)totals.num_examples *
                        tern_strategy_steps_factor(&totals, contribution->local_steps);
        assert_int_equal(
            tern_container_decode(&model, updates[u].container, updates[u].len, decoded), TERN_OK);
        for (uint32_t i = 0; i < model.count; i++) {
            sums[i] += weight * (double)decoded[i];
            magnitudes[i] += fabs(weight * (double)decoded[i]);
        }
    }
    assert_int_equal(take(3, 7, true, UINT64_MAX, 0, model.count, acc), TERN_OK);
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(fabs((double)acc[i] - sums[i]) <= magnitudes[i] * 0x1p-23);
    }
    free(magnitudes);
    free(sums);
    free(decoded);
    free(acc);
}

// --- Updates that are held

// Held where that is wanted and worth it, else added up. Returns how many were held.
static uint32_t take_as_they_come(const struct update *list, uint32_t start, bool hold,
                                  const struct tern_strategy_totals *of, uint64_t memory,
                                  const double *scales, float *acc)
{
    struct tern_exact_mean mean = {.model = NULL};
    uint32_t held = 0;
    tern_exact_mean_begin(&mean, &model, &of->rule, memory, 0, model.count);
    for (uint32_t i = 0; i < UPDATES; i++) {
        const uint32_t u = (start + i * 7) % UPDATES;
        struct tern_reading *reading = NULL;
        struct tern_codec_info info;
        assert_int_equal(
            tern_reading_make(&room, &model, list[u].container, list[u].len, &info, &reading),
            TERN_OK);
        enum tern_result result =
            hold ? tern_exact_mean_hold(&mean, &list[u].contribution, u, 1, reading)
                 : TERN_ERR_NO_SPACE;
        held += result == TERN_OK;
        if (result == TERN_ERR_NO_SPACE) {
            result = tern_exact_mean_add(&mean, &list[u].contribution, list[u].container,
                                         list[u].len, reading, NULL);
        }
        tern_reading_free(reading);
        assert_int_equal(result, TERN_OK);
    }
    assert_true(mean.used <= memory);
    for (uint32_t u = 0; scales != NULL && u < UPDATES; u++) {
        const double weight = scales[u] * (double)list[u].contribution.num_examples;
        if (!tern_exact_mean_reweigh_held(&mean, u, 1, weight)) {
            assert_int_equal(tern_exact_mean_reweigh(&mean, &list[u].contribution,
                                                     list[u].container, list[u].len, weight),
                             TERN_OK);
        }
    }
    assert_false(tern_exact_mean_reweigh_held(&mean, 0, 2, 0.5));
    assert_int_equal(mean.updates, UPDATES);
    assert_int_equal(atomic_load(&room.bytes), 0);
    tern_exact_mean_take(&mean, of, acc);
    tern_exact_mean_clear(&mean);
    return held;
}

CASE_WITH(test_held_updates_give_the_same_bits, setup, teardown)
{
    float *expected = calloc(model.count, sizeof *expected);
    float *acc = calloc(model.count, sizeof *acc);
    assert_int_equal(take(0, 1, false, UINT64_MAX, 0, model.count, expected), TERN_OK);
    for (uint32_t start = 0; start < UPDATES; start++) {
        const uint32_t held =
            take_as_they_come(updates, start, true, &totals, UINT64_MAX, NULL, acc);
        assert_in_range(held, 1, UPDATES / 3); // of sparse updates, while they take less than sums
        assert_memory_equal(acc, expected, model.count * sizeof *acc);
    }
    free(acc);
    free(expected);
}

// Sparse updates of a larger model in a memory that does not hold their sums; scales: of some.
static void hold_all(const struct update list[UPDATES], uint64_t memory, const double *scales)
{
    struct tern_strategy_totals all;
    float *expected = calloc(model.count, sizeof *expected);
    float *acc = calloc(model.count, sizeof *acc);
    tern_strategy_totals_init(&all, &totals.rule);
    for (uint32_t u = 0; u < UPDATES; u++) {
        assert_int_equal(tern_strategy_count_update(&all, &list[u].contribution), TERN_OK);
    }
    assert_int_equal(take_as_they_come(list, 0, false, &all, UINT64_MAX, scales, expected), 0);
    for (uint32_t start = 0; start < UPDATES; start++) {
        assert_int_equal(take_as_they_come(list, start, true, &all, memory, scales, acc), UPDATES);
        assert_memory_equal(acc, expected, model.count * sizeof *acc);
    }
    free(acc);
    free(expected);
}

// Tests updates with one number of local steps, and with a different number each.
CASE_WITH(test_what_sums_have_no_room_for_is_held, setup, teardown)
{
    struct update list[UPDATES];
    double scales[UPDATES];
    assert_int_equal(tern_model_from_spec(&model, "mlp:60-40-5"), TERN_OK);
    const uint64_t one_bin = (uint64_t)model.count * sizeof(uint64_t);
    for (uint32_t u = 0; u < UPDATES; u++) {
        make_update(&list[u], u, "density:p=0.02,coder=range");
        scales[u] = u % 3 == 0 ? 1.0 / (2.0 + u) : 1.0;
        list[u].contribution.local_steps = 5;
    }
    hold_all(list, one_bin - 1, NULL);
    hold_all(list, one_bin - 1, scales);
    for (uint32_t u = 0; u < UPDATES; u++) {
        list[u].contribution.local_steps = 1 + u;
    }
    hold_all(list, one_bin, NULL);
    hold_all(list, one_bin, scales);
    for (uint32_t u = 0; u < UPDATES; u++) {
        free(list[u].container);
    }
}

CASE_WITH(test_memory_is_bounded, setup, teardown)
{
    float *acc = calloc(model.count, sizeof *acc);
    const uint64_t one = (uint64_t)model.count * sizeof(uint64_t);
    assert_int_equal(take(0, 1, true, one, 0, model.count, acc), TERN_ERR_NO_SPACE);
    free(acc);
}

// --- Cells that two bins share

// Adds `count` updates whose values are in these bins: 1.5, -0x1.8p-16 in the bin below, and `third` in the first update
// only. Returns the bytes of the cells; acc is the mean as of `of`.
static uint64_t add_in_bins(uint32_t count, float third, const struct tern_strategy_totals *of,
                            float *acc)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_contribution contribution = {1, 5, 1.0F, 0};
    const size_t bound = tern_container_bound(&codec, &model);
    struct tern_exact_mean mean = {.model = NULL};
    float *values = malloc(model.count * sizeof *values);
    uint8_t *container = malloc(bound);
    size_t len = 0;
    tern_exact_mean_begin(&mean, &model, &of->rule, UINT64_MAX, 0, model.count);
    for (uint32_t u = 0; u < count; u++) {
        for (uint32_t i = 0; i < model.count; i++) {
            const float of_bins[] = {0x1.fffffep0F, -0x1.8p-16F, u == 0 ? third : 0.0F};
            values[i] = u < 200 ? of_bins[(u + i) % 3] : 0.0F;
        }
        assert_int_equal(
            tern_container_encode(&codec, NULL, &model, values, container, bound, &len), TERN_OK);
        assert_int_equal(tern_exact_mean_add(&mean, &contribution, container, len, NULL, NULL),
                         TERN_OK);
    }
    const uint64_t used = mean.used;
    tern_exact_mean_take(&mean, of, acc);
    tern_exact_mean_clear(&mean);
    free(container);
    free(values);
    return used;
}

// The last updates are zero and only count: sums that were divided give the mean of sums that were not.
CASE_WITH(test_two_neighbouring_bins_share_cells, setup, teardown)
{
    const uint64_t cells = (uint64_t)model.count * sizeof(uint64_t);
    const struct tern_contribution contribution = {1, 5, 1.0F, 0};
    struct tern_strategy_totals of;
    float *shared = calloc(model.count, sizeof *shared);
    float *divided = calloc(model.count, sizeof *divided);
    tern_strategy_totals_init(&of, &totals.rule);
    for (uint32_t u = 0; u < 200; u++) {
        assert_int_equal(tern_strategy_count_update(&of, &contribution), TERN_OK);
    }
    assert_int_equal(add_in_bins(200, 0.0F, &of, shared), cells);
    assert_int_equal(add_in_bins(TERN_EXACT_SHARING_MAX, 0.0F, &of, divided), cells);
    assert_memory_equal(shared, divided, model.count * sizeof *shared);
    assert_int_equal(add_in_bins(TERN_EXACT_SHARING_MAX + 1, 0.0F, &of, divided), 2 * cells);
    assert_memory_equal(shared, divided, model.count * sizeof *shared);
    assert_int_equal(add_in_bins(200, 0x1p-60F, &of, divided), 3 * cells);
    assert_memory_equal(shared, divided, model.count * sizeof *shared);
    for (uint32_t i = 0; i < model.count; i++) {
        double sum = 0.0; // exact
        for (uint32_t u = 0; u < 200; u++) {
            sum += (u + i) % 3 == 0 ? (double)0x1.fffffep0F : (u + i) % 3 == 1 ? -0x1.8p-16 : 0.0;
        }
        assert_true(shared[i] == (float)(sum / 200.0));
    }
    free(divided);
    free(shared);
}

// Numbers of examples that no float32 holds: the mean of equal values is that value.
CASE_WITH(test_many_examples_keep_their_weight, setup, teardown)
{
    static const uint32_t examples[] = {(1U << 24) + 1, (1U << 25) + 3, UINT32_MAX};
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    float *values = malloc(model.count * sizeof *values);
    uint8_t *container = malloc(tern_container_bound(&codec, &model));
    size_t len = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = 3.0F;
    }
    assert_int_equal(tern_container_encode(&codec, NULL, &model, values, container,
                                           tern_container_bound(&codec, &model), &len),
                     TERN_OK);
    for (size_t e = 0; e < sizeof examples / sizeof examples[0]; e++) {
        struct tern_exact_mean mean = {.model = NULL};
        const struct tern_contribution contribution = {examples[e], 5, 1.0F, 0};
        struct tern_strategy_totals one;
        tern_strategy_totals_init(&one, &totals.rule);
        assert_int_equal(tern_strategy_count_update(&one, &contribution), TERN_OK);
        tern_exact_mean_begin(&mean, &model, &one.rule, UINT64_MAX, 0, model.count);
        assert_int_equal(tern_exact_mean_add(&mean, &contribution, container, len, NULL, NULL),
                         TERN_OK);
        tern_exact_mean_take(&mean, &one, values);
        for (uint32_t i = 0; i < model.count; i++) {
            assert_true(values[i] == 3.0F);
        }
        tern_exact_mean_clear(&mean);
    }
    free(container);
    free(values);
}

// --- Readings

// A payload of as many equal signs as a tensor has values takes few bytes: what it expands to is not
// kept, and it is added up all the same.
CASE_WITH(test_what_expands_is_not_kept, setup, teardown)
{
    static struct tern_model large;
    const struct tern_codec codec = {
        .id = TERN_CODEC_3LC, .sparsity = 1.0F, .coder = TERN_CODER_RANGE};
    assert_int_equal(tern_model_from_spec(&large, "softmax:2000-20"), TERN_OK);
    float *values = malloc(large.count * sizeof *values);
    uint8_t *container = malloc(tern_container_bound(&codec, &large));
    size_t len = 0;
    for (uint32_t i = 0; i < large.count; i++) {
        values[i] = 1.0F;
    }
    assert_int_equal(tern_container_encode(&codec, NULL, &large, values, container,
                                           tern_container_bound(&codec, &large), &len),
                     TERN_OK);
    struct tern_reading *reading = NULL;
    struct tern_codec_info info;
    assert_int_equal(tern_reading_make(&room, &large, container, len, &info, &reading), TERN_OK);
    assert_true(info.nonzero == large.count && len * 8 < large.count);
    assert_false(tern_reading_keeps(reading, 0));
    struct tern_exact_mean mean = {.model = NULL};
    const struct tern_contribution contribution = {10, 5, 1.0F, 0};
    struct tern_strategy_totals one;
    tern_strategy_totals_init(&one, &totals.rule);
    assert_int_equal(tern_strategy_count_update(&one, &contribution), TERN_OK);
    tern_exact_mean_begin(&mean, &large, &one.rule, UINT64_MAX, 0, large.count);
    assert_int_equal(tern_exact_mean_add(&mean, &contribution, container, len, reading, NULL),
                     TERN_OK);
    tern_exact_mean_take(&mean, &one, values);
    for (uint32_t i = 0; i < large.count; i++) {
        assert_true(values[i] == 1.0F);
    }
    tern_reading_free(reading);
    tern_exact_mean_clear(&mean);
    free(container);
    free(values);
}

// Whatever they are.
static bool hands_over_signs(const char *coder)
{
    return strcmp(coder, "range") == 0 || strcmp(coder, "gaps") == 0;
}

static bool is_planar(const char *coder)
{
    return strcmp(coder, "packed") == 0 || strcmp(coder, "zero-run") == 0;
}

// The mean of one update that is taken in twice, as a reading and from its container.
static void take_coded(const char *coder, bool sparse, float *acc)
{
    char spec[64];
    struct update update;
    struct tern_reading *reading = NULL;
    struct tern_codec_info info;
    struct tern_exact_mean mean = {.model = NULL};
    struct tern_strategy_totals both;
    snprintf(spec, sizeof spec, "density:p=%s,coder=%s", sparse ? "0.2" : "0.7", coder);
    make_update(&update, 1, spec);
    assert_int_equal(
        tern_reading_make(&room, &model, update.container, update.len, &info, &reading), TERN_OK);
    assert_int_equal(tern_reading_is_whole(reading),
                     hands_over_signs(coder) || (sparse && is_planar(coder)));
    tern_strategy_totals_init(&both, &totals.rule);
    tern_exact_mean_begin(&mean, &model, &totals.rule, UINT64_MAX, 0, model.count);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(tern_strategy_count_update(&both, &update.contribution), TERN_OK);
        assert_int_equal(tern_exact_mean_add(&mean, &update.contribution, update.container,
                                             update.len, i == 0 ? reading : NULL, NULL),
                         TERN_OK);
    }
    tern_exact_mean_take(&mean, &both, acc);
    tern_exact_mean_clear(&mean);
    tern_reading_free(reading);
    free(update.container);
}

// Sums do not depend on the coder of an update, nor on whether it is added by indices or by all values.
CASE_WITH(test_coders_leave_no_trace, setup, teardown)
{
    static const char *const coders[] = {"packed", "zero-run", "gaps"};
    (void)state;
    assert_int_equal(tern_model_from_spec(&model, "mlp:60-40-5"), TERN_OK);
    float *expected = calloc(model.count, sizeof *expected);
    float *acc = calloc(model.count, sizeof *acc);
    for (unsigned sparse = 0; sparse < 2; sparse++) {
        take_coded("range", sparse == 1, expected);
        for (size_t i = 0; i < sizeof coders / sizeof coders[0]; i++) {
            memset(acc, 0, model.count * sizeof *acc);
            take_coded(coders[i], sparse == 1, acc);
            assert_memory_equal(acc, expected, model.count * sizeof *acc);
        }
    }
    free(acc);
    free(expected);
}

// The mean of one update, by its reading or by its container.
static void take_alone(const struct update *update, const struct tern_reading *reading, float *acc)
{
    struct tern_exact_mean mean = {.model = NULL};
    struct tern_strategy_totals one;
    tern_strategy_totals_init(&one, &totals.rule);
    tern_exact_mean_begin(&mean, &model, &totals.rule, UINT64_MAX, 0, model.count);
    assert_int_equal(tern_strategy_count_update(&one, &update->contribution), TERN_OK);
    assert_int_equal(tern_exact_mean_add(&mean, &update->contribution, update->container,
                                         update->len, reading, NULL),
                     TERN_OK);
    tern_exact_mean_take(&mean, &one, acc);
    tern_exact_mean_clear(&mean);
}

// Payloads of uniform are decoded once: the sums go by the reading, also if the container has changed since. Without room
// for the values they are only checked.
CASE_WITH(test_values_that_are_slow_to_read_are_kept, setup, teardown)
{
    struct update update;
    struct tern_codec_info info;
    struct tern_codec_info unkept;
    struct tern_reading *reading = NULL;
    (void)state;
    assert_int_equal(tern_model_from_spec(&model, "mlp:60-40-5"), TERN_OK);
    make_update(&update, 1, "uniform:error=0.05");
    float *expected = calloc(model.count, sizeof *expected);
    float *acc = calloc(model.count, sizeof *acc);
    take_alone(&update, NULL, expected);
    atomic_store(&room.bytes, TERN_READINGS_MAX - 1);
    assert_int_equal(
        tern_reading_make(&room, &model, update.container, update.len, &unkept, &reading), TERN_OK);
    assert_null(reading);
    atomic_store(&room.bytes, 0);
    assert_int_equal(
        tern_reading_make(&room, &model, update.container, update.len, &info, &reading), TERN_OK);
    assert_true(tern_reading_keeps(reading, 0) && !tern_reading_is_whole(reading));
    assert_true(info.nonzero > 0 && info.nonzero == unkept.nonzero &&
                info.sum_square == unkept.sum_square);
    assert_true(tern_reading_bytes(reading) >= model.segments[0].count * sizeof(float));
    update.container[20] ^= 1;
    take_alone(&update, reading, acc);
    assert_memory_equal(acc, expected, model.count * sizeof *acc);
    tern_reading_free(reading);
    for (size_t cut = 0; cut < update.len; cut++) {
        assert_int_not_equal(
            tern_reading_make(&room, &model, update.container, cut, &info, &reading), TERN_OK);
        assert_int_equal(atomic_load(&room.bytes), 0);
    }
    free(acc);
    free(expected);
    free(update.container);
}

// Once others hold too much memory nothing is kept; what is damaged leaves nothing behind.
CASE_WITH(test_readings_are_bounded, setup, teardown)
{
    struct tern_reading *reading = NULL;
    struct tern_codec_info info;
    const struct update *update = &updates[0];
    atomic_store(&room.bytes, TERN_READINGS_MAX);
    assert_int_equal(
        tern_reading_make(&room, &model, update->container, update->len, &info, &reading), TERN_OK);
    assert_null(reading);
    assert_true(info.nonzero > 0);
    atomic_store(&room.bytes, 0);
    for (size_t cut = 0; cut < update->len; cut++) {
        assert_int_not_equal(
            tern_reading_make(&room, &model, update->container, cut, &info, &reading), TERN_OK);
        assert_null(reading);
        assert_int_equal(atomic_load(&room.bytes), 0);
    }
}
