// One figure of many clients: means, deviation and the worst client, and of which figures more is better.
#include "rounds/spread.h"
#include "tests/cases.h"

#include <math.h>

static void near_to(double found, double expected)
{
    assert_true(fabs(found - expected) < 1e-12);
}

CASE(test_means_and_the_worst_client)
{
    static const struct {
        uint64_t client;
        uint32_t examples;
        double value;
    } told[] = {{7, 10, 0.5}, {3, 30, 0.9}, {9, 60, 0.4}, {4, 100, 0.4}};
    struct tern_spread gain = {0};
    struct tern_spread loss = {0};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        tern_spread_add(&gain, true, told[i].client, told[i].examples, told[i].value);
        tern_spread_add(&loss, false, told[i].client, told[i].examples, told[i].value);
    }
    assert_int_equal(gain.clients, 4);
    assert_int_equal(gain.examples, 200);
    near_to(gain.weighted_mean, (10 * 0.5 + 30 * 0.9 + 160 * 0.4) / 200);
    near_to(gain.mean, 0.55);
    near_to(tern_spread_deviation(&gain), sqrt((0.05 * 0.05 + 0.35 * 0.35 + 2 * 0.15 * 0.15) / 4));
    near_to(gain.worst, 0.4);
    assert_int_equal(gain.worst_client, 9);
    near_to(loss.worst, 0.9);
    assert_int_equal(loss.worst_client, 3);
}

CASE(test_one_client_and_clients_alike_are_not_apart)
{
    struct tern_spread spread = {0};
    near_to(tern_spread_deviation(&spread), 0);
    for (uint64_t client = 1; client <= 1000; client++) {
        tern_spread_add(&spread, false, client, 1, 1e9 + 0.1);
        assert_true(tern_spread_deviation(&spread) == 0);
    }
    assert_int_equal(spread.worst_client, 1);
}

CASE(test_which_figures_are_gains)
{
    static const char *const gains[] = {"accuracy", "f1_macro", "f1",         "recall",
                                        "auc",      "r2",       "precision_0"};
    static const char *const costs[] = {"loss", "mae", "mse", "error", "", "f"};
    for (size_t i = 0; i < sizeof gains / sizeof gains[0]; i++) {
        assert_true(tern_metric_higher_is_better(gains[i]));
    }
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        assert_false(tern_metric_higher_is_better(costs[i]));
    }
}
