// Sums of float32 numbers that are exact, and the weighted mean that is made with them: the same
// bits in every order, in however many parts, with whatever memory.
#include "merge/exact_mean.h"
#include "util/prng.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#define SPEC "mlp:20-12-5"
#define UPDATES 24

static struct tern_model model;
static struct tern_reading_room room;

// --- One number

// The largest of each exponent, the smallest, and those around: what a bin holds is the number.
static void test_a_bin_holds_the_number(void **state)
{
    (void)state;
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        static const uint32_t mantissas[] = {0, 1, 2, 0x400000, 0x7ffffe, 0x7fffff};
        for (size_t i = 0; i < 2 * sizeof mantissas / sizeof mantissas[0]; i++) {
            const uint32_t sign = (uint32_t)(i % 2) << 31;
            const float number = tern_bits_float(sign | exponent << 23 | mantissas[i / 2]);
            const struct tern_exact_term term = tern_exact_term(number);
            assert_true(term.bin < TERN_EXACT_BINS);
            assert_true(tern_exact_of(term.bin, term.amount) == (double)number);
            const uint64_t magnitude = sign != 0 ? 0 - term.amount : term.amount;
            assert_true(magnitude < UINT64_C(1) << 39);
        }
    }
    assert_true(tern_exact_term(INFINITY).bin >= TERN_EXACT_BINS);
    assert_true(tern_exact_term(-INFINITY).bin >= TERN_EXACT_BINS);
    assert_true(tern_exact_term(NAN).bin >= TERN_EXACT_BINS);
}

// As many as a round may have, all of them the largest of their bin.
static void test_a_full_bin_does_not_overflow(void **state)
{
    (void)state;
    const float largest = ldexpf(0x1.fffffep0F, 15 - 126); // of e = 15
    const struct tern_exact_term term = tern_exact_term(largest);
    const struct tern_exact_term next = tern_exact_term(nextafterf(largest, 1.0F));
    assert_int_equal(term.bin, 0);
    assert_int_equal(next.bin, 1);
    const uint64_t sum = term.amount * TERN_EXACT_TERMS_MAX;
    assert_true(sum / TERN_EXACT_TERMS_MAX == term.amount && sum < UINT64_C(1) << 63);
    assert_true(tern_exact_of(0, sum) == (double)largest * TERN_EXACT_TERMS_MAX);
    assert_true(tern_exact_of(0, 0 - sum) == -(double)largest * TERN_EXACT_TERMS_MAX);
}

// --- Updates of every kind

struct update {
    struct tern_contribution contribution;
    uint8_t *container;
    size_t len;
};

static struct update updates[UPDATES];
static struct tern_strategy_totals totals;

static void make_update(struct update *update, uint32_t index)
{
    static const char *const specs[] = {"3lc:s=1,clip=4,coder=range", "float32", "3lc:s=1",
                                        "density:p=0.2,coder=gaps",   "int8",    "float16"};
    struct tern_codec codec;
    struct tern_prng rng;
    float *values = malloc(model.count * sizeof *values);
    assert_int_equal(tern_codec_parse(specs[index % 6], &codec, NULL), TERN_OK);
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
    (void)state;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, SPEC), TERN_OK);
    const struct tern_strategy_rule rule = {
        .strategy = &tern_strategy_fednova,
        .server_learning_rate = 1.0F,
        .parameters = {[TERN_STRATEGY_SCALE_MAX] = 2.0F},
    };
    tern_strategy_count_none(&totals, &rule);
    for (uint32_t i = 0; i < UPDATES; i++) {
        make_update(&updates[i], i);
        assert_int_equal(tern_strategy_count(&totals, &updates[i].contribution), TERN_OK);
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
                                     reading);
        tern_reading_free(reading);
    }
    if (result == TERN_OK) {
        tern_exact_mean_take(&mean, &totals, acc);
    }
    assert_true(mean.used <= memory);
    tern_exact_mean_clear(&mean);
    return result;
}

static void test_every_order_gives_the_same_bits(void **state)
{
    (void)state;
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

static void test_every_part_gives_the_same_bits(void **state)
{
    (void)state;
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
static void test_the_mean_is_right(void **state)
{
    (void)state;
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

static void test_memory_is_bounded(void **state)
{
    (void)state;
    float *acc = calloc(model.count, sizeof *acc);
    const uint64_t one = (uint64_t)model.count * sizeof(uint64_t);
    assert_int_equal(take(0, 1, true, one, 0, model.count, acc), TERN_ERR_NO_SPACE);
    free(acc);
}

// --- Readings

// A payload of as many equal signs as a tensor has values takes few bytes: what it expands to is not
// kept, and it is added up all the same.
static void test_what_expands_is_not_kept(void **state)
{
    (void)state;
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
    tern_strategy_count_none(&one, &totals.rule);
    assert_int_equal(tern_strategy_count(&one, &contribution), TERN_OK);
    tern_exact_mean_begin(&mean, &large, &one.rule, UINT64_MAX, 0, large.count);
    assert_int_equal(tern_exact_mean_add(&mean, &contribution, container, len, reading), TERN_OK);
    tern_exact_mean_take(&mean, &one, values);
    for (uint32_t i = 0; i < large.count; i++) {
        assert_true(values[i] == 1.0F);
    }
    tern_reading_free(reading);
    tern_exact_mean_clear(&mean);
    free(container);
    free(values);
}

// Once others hold too much memory nothing is kept; what is damaged leaves nothing behind.
static void test_readings_are_bounded(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bin_holds_the_number),
        cmocka_unit_test(test_a_full_bin_does_not_overflow),
        cmocka_unit_test_setup_teardown(test_every_order_gives_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_part_gives_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_mean_is_right, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_expands_is_not_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readings_are_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
