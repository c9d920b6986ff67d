// A strategy that combines values in two passes and keeps what the first one found for the second:
// the same bits whether memory is enough for all values or for one of each update.
#include "strategies/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#define COUNT 15 // values of softmax:4-3
#define UPDATES 4

static struct tern_model model;
static uint32_t blocks;

static float value_of(size_t update, size_t i)
{
    return ((float)(update * 7 + i) - 13.5F) / (float)(update * update + 3);
}

// Weighs each update by the inverse of its squared norm, which the first pass sums up.
static void combine(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    double *squares = sums->memory.scratch;
    blocks++;
    for (uint32_t u = 0; block->pass == 0 && u < block->updates; u++) {
        squares[u] = block->first == 0 ? 0.0 : squares[u];
        for (uint32_t i = 0; i < block->width; i++) {
            double value = (double)block->values[u * block->width + i];
            squares[u] += value * value;
        }
    }
    for (uint32_t i = 0; block->pass == 1 && i < block->width; i++) {
        double sum = 0.0;
        for (uint32_t u = 0; u < block->updates; u++) {
            sum += (double)block->values[u * block->width + i] / squares[u];
        }
        sums->memory.acc[block->first + i] = (float)sum;
    }
}

static size_t scratch_size(uint32_t updates)
{
    return updates * sizeof(double);
}

static const struct tern_strategy strategy = {.name = "two-passes",
                                              .server_learning_rate = 1.0F,
                                              .passes = 2,
                                              .scratch = scratch_size,
                                              .combine = combine};

// One round with room for that many coordinates of each update.
static void merge(size_t width, float global[COUNT])
{
    static const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_strategy_rule rule = {.strategy = &strategy, .server_learning_rate = 1.0F};
    const struct tern_contribution contribution = {10, 5, 1.0F, 0};
    uint8_t containers[UPDATES][256];
    size_t len[UPDATES];
    struct tern_strategy_totals totals;
    tern_strategy_count_none(&totals, &rule);
    for (size_t u = 0; u < UPDATES; u++) {
        float values[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = value_of(u, i);
        }
        assert_int_equal(tern_container_encode(&codec, NULL, &model, values, containers[u],
                                               sizeof containers[u], &len[u]),
                         TERN_OK);
        assert_int_equal(tern_strategy_count(&totals, &contribution), TERN_OK);
    }
    float acc[COUNT];
    float decoded[COUNT];
    float room[COUNT * UPDATES];
    double scratch[UPDATES] = {-1.0, -1.0, -1.0, -1.0};
    const struct tern_strategy_memory memory = {acc,  {NULL, NULL},    decoded,
                                                room, width * UPDATES, scratch};
    struct tern_strategy_sums sums;
    tern_strategy_begin(&sums, &model, &totals, &memory);
    blocks = 0;
    while (!tern_strategy_ready(&sums)) {
        for (size_t u = 0; u < UPDATES; u++) {
            assert_int_equal(tern_strategy_accumulate(&sums, &contribution, containers[u], len[u]),
                             TERN_OK);
        }
    }
    assert_int_equal(blocks, 2 * ((COUNT + width - 1) / width));
    memset(global, 0, COUNT * sizeof global[0]);
    assert_int_equal(tern_strategy_merge(&sums, global), TERN_OK);
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(tern_model_from_spec(&model, "softmax:4-3"), TERN_OK);
    assert_int_equal(model.count, COUNT);
    return 0;
}

static void test_enough_memory(void **state)
{
    (void)state;
    double squares[UPDATES] = {0.0};
    float global[COUNT];
    for (size_t u = 0; u < UPDATES; u++) {
        for (size_t i = 0; i < COUNT; i++) {
            squares[u] += (double)value_of(u, i) * (double)value_of(u, i);
        }
    }
    merge(COUNT, global);
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0.0;
        for (size_t u = 0; u < UPDATES; u++) {
            sum += (double)value_of(u, i) / squares[u];
        }
        assert_true(global[i] == (float)sum);
    }
}

static void test_little_memory(void **state)
{
    (void)state;
    float whole[COUNT];
    merge(COUNT, whole);
    for (size_t width = 1; width < COUNT; width++) {
        float global[COUNT];
        merge(width, global);
        assert_memory_equal(global, whole, sizeof whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enough_memory),
        cmocka_unit_test(test_little_memory),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
