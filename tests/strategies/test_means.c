// The weighted means, to the bit: FedAvg, FedNova and FedProx at the server; and what all
// strategies refuse.
#include "merged.h"
#include "tests/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 15 // values of softmax:4-3

static struct tern_model model;
static struct tern_strategy_totals totals;
static struct tern_strategy_sums sums;
static struct tern_strategy_rule rule;
static float acc[COUNT];
static float global[COUNT];

struct update {
    struct tern_contribution contribution;
    uint8_t container[256];
    size_t len;
};

static int setup(void **state)
{
    (void)state;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, "softmax:4-3"), TERN_OK);
    assert_int_equal(model.count, COUNT);
    memset(global, 0, sizeof global);
    memset(&rule, 0, sizeof rule);
    rule.strategy = &tern_strategy_fedavg;
    rule.server_learning_rate = 1.0F;
    tern_strategy_totals_init(&totals, &rule);
    return 0;
}

static struct update update_of(float value, uint32_t num_examples, uint32_t local_steps)
{
    struct update update = {.contribution = {num_examples, local_steps, value, 0}};
    struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    float values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = value * (float)(i + 1);
    }
    assert_true(tern_container_bound(&codec, &model) <= sizeof update.container);
    assert_int_equal(tern_container_encode(&codec, NULL, &model, values, update.container,
                                           sizeof update.container, &update.len),
                     TERN_OK);
    return update;
}

static void use(const struct tern_strategy *strategy, float rate)
{
    rule.strategy = strategy;
    rule.server_learning_rate = rate;
    tern_strategy_totals_init(&totals, &rule);
}

static enum tern_result take(const struct update *updates, size_t count)
{
    const struct tern_strategy_memory memory = {.acc = acc};
    struct held_update held[8];
    for (size_t i = 0; i < count; i++) {
        held[i] =
            (struct held_update){updates[i].contribution, updates[i].container, updates[i].len};
        assert_int_equal(tern_strategy_count_update(&totals, &updates[i].contribution), TERN_OK);
    }
    return take_updates(&sums, &model, &totals, &memory, held, count);
}

static void run(const struct update *updates, size_t count)
{
    assert_int_equal(take(updates, count), TERN_OK);
    assert_int_equal(tern_strategy_merge(&sums, global), TERN_OK);
}

CASE_WITH(test_find, setup, NULL)
{
    static const char *const names[] = {
        "fednova",       "fedavg",     "fedprox", "fedavgm", "fedadam",   "fedyogi", "fedmedian",
        "fedtrimmedavg", "fedadagrad", "fedbuff", "krum",    "multikrum", "qsvrg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_equal(tern_strategy_find(names[i])->name, names[i]);
        assert_true(tern_strategy_find(names[i])->server_learning_rate > 0.0F);
    }
    assert_null(tern_strategy_find("fedfuture"));
    assert_string_equal(TERN_STRATEGY_DEFAULT, "fedavgm");
}

// The ends of every range are in it as the float32 that a setting becomes, the next floats are not.
CASE_WITH(test_ranges_of_parameters, setup, NULL)
{
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        const enum tern_strategy_parameter parameter = (enum tern_strategy_parameter)i;
        float least = (float)tern_strategy_parameter_table[i].least;
        float most = (float)tern_strategy_parameter_table[i].most;
        assert_true(tern_strategy_parameter_fits(parameter, least));
        assert_true(tern_strategy_parameter_fits(parameter, most));
        if (tern_strategy_parameter_table[i].or_zero) {
            assert_true(tern_strategy_parameter_fits(parameter, 0.0F));
            assert_false(tern_strategy_parameter_fits(parameter, nextafterf(0.0F, INFINITY)));
            assert_false(tern_strategy_parameter_fits(parameter, nextafterf(0.0F, -INFINITY)));
        }
        assert_false(tern_strategy_parameter_fits(parameter, nextafterf(least, -INFINITY)));
        assert_false(tern_strategy_parameter_fits(parameter, nextafterf(most, INFINITY)));
        assert_false(tern_strategy_parameter_fits(parameter, INFINITY));
        assert_false(tern_strategy_parameter_fits(parameter, NAN));
    }
}

CASE_WITH(test_weighted_by_examples, setup, NULL)
{
    struct update updates[2] = {update_of(4.0F, 30, 5), update_of(0.0F, 10, 5)};
    run(updates, 2);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(global[i] == 3.0F * (float)(i + 1));
    }
    struct tern_strategy_report report;
    tern_strategy_fill_report(&sums, &report);
    assert_int_equal(report.updates, 2);
    assert_int_equal(report.num_examples, 40);
    assert_true(report.mean_loss == 3.0F);
    assert_true(report.effective_steps == 5.0F);
    assert_true(report.step_norm > 105.6F && report.step_norm < 105.7F);
}

CASE_WITH(test_server_learning_rate, setup, NULL)
{
    struct update updates[1] = {update_of(2.0F, 10, 5)};
    use(&tern_strategy_fedprox, 0.5F);
    run(updates, 1);
    assert_true(global[0] == 1.0F);
}

// Equal steps must not leave a trace of the normalisation, to the last bit.
CASE_WITH(test_equal_steps_are_exactly_fedavg, setup, NULL)
{
    uint32_t examples[3] = {7, 13, 29};
    float expected[COUNT];
    double held[COUNT] = {0}; // so few terms of so few bits are exact in double
    struct update updates[3];
    for (size_t u = 0; u < 3; u++) {
        updates[u] = update_of(0.1F * (float)(u + 1), examples[u], 37);
        for (size_t i = 0; i < COUNT; i++) {
            float product = (float)examples[u] * (0.1F * (float)(u + 1) * (float)(i + 1));
            held[i] += (double)product;
            expected[i] = (float)(held[i] / 49.0);
        }
    }
    static const struct tern_strategy *const alike[] = {&tern_strategy_fedavg,
                                                        &tern_strategy_fednova};
    static const float scales[] = {0.0F, 1.0F, 2.0F};
    for (size_t i = 0; i < 6; i++) {
        setup(state);
        rule.parameters[TERN_STRATEGY_LOCAL_MOMENTUM] = 0.9F;
        rule.parameters[TERN_STRATEGY_SCALE_MAX] = scales[i / 2];
        use(alike[i % 2], 1.0F);
        run(updates, 3);
        assert_memory_equal(global, expected, sizeof global);
    }
}

// Two clients with the same gradient per step, one doing 10 steps and one 30: FedAvg follows the
// second three times as much; normalised, both count alike.
CASE_WITH(test_unequal_steps_are_normalised, setup, NULL)
{
    struct update updates[2] = {update_of(10.0F, 100, 10), update_of(30.0F, 100, 30)};
    struct update opposed[2] = {update_of(10.0F, 100, 10), update_of(-30.0F, 100, 30)};
    use(&tern_strategy_fednova, 1.0F);
    run(updates, 2);
    assert_true(global[0] == 20.0F); // tau_eff = 20 steps of 1 each
    setup(NULL);
    use(&tern_strategy_fednova, 1.0F);
    run(opposed, 2);
    assert_true(global[0] == 0.0F);
    setup(NULL);
    run(opposed, 2);
    assert_true(global[0] == -10.0F);
}

// As before: the first, of 10 steps, would be scaled to 20; the second, of 30, is scaled down to
// it.
CASE_WITH(test_scale_max_bounds_what_is_scaled_up, setup, NULL)
{
    struct update updates[2] = {update_of(10.0F, 100, 10), update_of(30.0F, 100, 30)};
    const float expected[][2] = {{0.0F, 20.0F}, {1.0F, 15.0F}, {1.5F, 17.5F}, {2.0F, 20.0F}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        setup(NULL);
        rule.parameters[TERN_STRATEGY_SCALE_MAX] = expected[i][0];
        use(&tern_strategy_fednova, 1.0F);
        run(updates, 2);
        assert_true(global[0] == expected[i][1]);
    }
}

CASE_WITH(test_ready_only_with_all, setup, NULL)
{
    struct update one = update_of(1.0F, 10, 5);
    assert_int_equal(take(&one, 0), TERN_ERR_STATE); // nothing was counted
    assert_false(tern_strategy_is_complete(&sums));
    assert_int_equal(tern_strategy_merge(&sums, global), TERN_ERR_STATE);
    assert_int_equal(take(&one, 1), TERN_OK);
    assert_true(tern_strategy_is_complete(&sums));
    // Who takes the mean is not handed values, who is handed them takes no mean.
    assert_int_equal(tern_strategy_accumulate(&sums, one.container, one.len), TERN_ERR_STATE);
    use(&tern_strategy_fedmedian, 1.0F);
    assert_int_equal(tern_strategy_count_update(&totals, &one.contribution), TERN_OK);
    const struct tern_strategy_memory memory = {.acc = acc};
    tern_strategy_begin(&sums, &model, &totals, &memory);
    assert_int_equal(tern_strategy_take_mean(&sums), TERN_ERR_STATE);
    assert_false(tern_strategy_is_complete(&sums));
}

CASE_WITH(test_hostile_numbers, setup, NULL)
{
    struct tern_contribution none = {0, 5, 0.0F, 0};
    struct tern_contribution still = {5, 0, 0.0F, 0};
    struct tern_contribution huge = {UINT32_MAX, UINT32_MAX, 0.0F, 0};
    struct tern_contribution large = {UINT32_MAX, 1u << 20, 0.0F, 0};
    assert_int_equal(tern_strategy_count_update(&totals, &none), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_strategy_count_update(&totals, &still), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_strategy_count_update(&totals, &huge), TERN_ERR_TOO_LARGE);
    assert_int_equal(tern_strategy_count_update(&totals, &large), TERN_OK);
    assert_int_equal(tern_strategy_count_update(&totals, &large), TERN_OK);
    assert_int_equal(tern_strategy_count_update(&totals, &large), TERN_ERR_TOO_LARGE);
    assert_int_equal(totals.updates, 2);
}

CASE_WITH(test_damaged_update_changes_nothing, setup, NULL)
{
    struct update one = update_of(1.0F, 10, 5);
    one.len--;
    assert_int_equal(take(&one, 1), TERN_ERR_CORRUPT);
    assert_false(tern_strategy_is_complete(&sums));
    assert_int_equal(tern_strategy_merge(&sums, global), TERN_ERR_STATE);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(acc[i] == 0.0F);
    }
}

CASE_WITH(test_overflow_is_refused, setup, NULL)
{
    struct update one = update_of(2e36F, 10, 5);
    use(&tern_strategy_fedavg, 100.0F);
    for (size_t i = 0; i < COUNT; i++) {
        global[i] = 1.0F;
    }
    assert_int_equal(take(&one, 1), TERN_OK);
    assert_int_equal(tern_strategy_merge(&sums, global), TERN_ERR_NON_FINITE);
    // What its weight makes of it is too large already.
    one = update_of(2e37F, 100, 5);
    use(&tern_strategy_fedavg, 1.0F);
    assert_int_equal(take(&one, 1), TERN_ERR_NON_FINITE);
}
