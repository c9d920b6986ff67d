// The accountant of differential privacy, against published values, and its monotony.
#include "rounds/privacy.h"
#include "tests/cases.h"

#include <math.h>

#define TEST(name) CASE(name)

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) {
        fail_msg("%.10g is not within %g of %.10g", value, tolerance, expected);
    }
}

static double poisson(double clients, double cohort, double noise, double epochs, double delta,
                      uint32_t *order)
{
    const struct tern_poisson_rounds rounds = {cohort / clients, noise, epochs * clients / cohort};
    return tern_privacy_epsilon_poisson(&rounds, delta, order);
}

// From TensorFlow Privacy's tutorial and tests.
TEST(test_poisson_sampling_has_the_published_epsilon)
{
    uint32_t order = 0;
    assert_near(poisson(60000, 150, 1.3, 15, 1e-5, &order), 0.7242234, 5e-8);
    assert_int_equal(order, 19);
    assert_near(poisson(1e5, 100, 1.0, 30, 1e-7, &order), 1.4154988, 5e-8);
    assert_int_equal(order, 13);
}

TEST(test_a_divergence_has_the_published_epsilon)
{
    double best = INFINITY;
    for (int order = 2; order <= 32; order++) {
        best = fmin(best, tern_privacy_epsilon_of_order(1.1, order, 1e-5));
    }
    assert_near(best, 1.32783806176, 1e-10);
}

// From the same tests; k rounds have the loss of one round whose noise is divided by sqrt(k).
TEST(test_gaussian_noise_has_the_published_epsilon)
{
    const double once = 4.530877117;
    const double each = once * sqrt(7.0);
    assert_near(tern_privacy_epsilon(1.0 / (once * once), 1e-6), 1.0, 1e-4);
    assert_near(tern_privacy_epsilon(7.0 / (each * each), 1e-6), 1.0, 1e-4);
}

// Compares with a search over all orders, which the walk along the orders leaves out.
TEST(test_the_best_order_is_found)
{
    const double losses[] = {1e-8, 1e-4, 0.01, 1.0, 30.0, 1e4};
    const double deltas[] = {1e-2, 1e-5, 1e-12};
    for (int i = 0; i < 18; i++) {
        const double loss = losses[i % 6];
        const double delta = deltas[i / 6];
        double best = INFINITY;
        for (double step = -12.0; step < 24.0; step += 1.0 / 1024) {
            const double order = 1.0 + exp(step);
            best = fmin(best, tern_privacy_epsilon_of_order(loss * order / 2, order, delta));
        }
        assert_near(tern_privacy_epsilon(loss, delta), best, 1e-4 * best + 1e-12);
    }
}

TEST(test_without_sampling_poisson_is_the_plain_sum)
{
    const struct tern_poisson_rounds rounds = {1.0, 5.0, 10};
    assert_near(tern_privacy_epsilon_poisson(&rounds, 1e-5, NULL),
                tern_privacy_epsilon(10 / 25.0, 1e-5), 1e-3);
}

TEST(test_epsilon_grows_with_the_loss_and_falls_with_delta)
{
    double before = 0.0;
    double sampled_before = 0.0;
    for (int k = 1; k <= 400; k++) {
        const double loss = k / 16.0;
        const struct tern_poisson_rounds rounds = {0.1, 4.0, k};
        const double epsilon = tern_privacy_epsilon(loss, 1e-5);
        assert_true(epsilon > before);
        assert_true(tern_privacy_epsilon(loss, 1e-6) > epsilon);
        if (k % 50 == 1) { // 511 orders each
            const double sampled = tern_privacy_epsilon_poisson(&rounds, 1e-5, NULL);
            assert_true(sampled > sampled_before && sampled < epsilon);
            sampled_before = sampled;
        }
        before = epsilon;
    }
}

TEST(test_no_loss_is_no_epsilon_and_no_noise_is_none_at_all)
{
    const struct tern_poisson_rounds none = {0.1, 1.0, 0};
    assert_true(tern_privacy_epsilon(0.0, 1e-5) == 0.0);
    assert_true(tern_privacy_epsilon_poisson(&none, 1e-5, NULL) == 0.0);
    assert_true(isinf(tern_privacy_epsilon(INFINITY, 1e-5)));
}

TEST(test_the_limit_leaves_room_for_one_round)
{
    const double epsilons[] = {0.01, 1.0, 8.0, 100.0};
    for (int i = 0; i < 4; i++) {
        const struct tern_privacy_settings no_round = {INFINITY, 1e-5, epsilons[i]};
        const struct tern_privacy_settings a_round = {2.0, 1e-5, epsilons[i]};
        const double loss = tern_privacy_loss_before(&no_round, 100);
        assert_true(tern_privacy_epsilon(loss, 1e-5) <= epsilons[i]);
        assert_true(tern_privacy_epsilon(loss * 1.0001, 1e-5) > epsilons[i]);
        assert_near(tern_privacy_loss_before(&a_round, 100), loss - 0.25, 1e-9);
    }
}

TEST(test_without_a_limit_every_client_may_take_part)
{
    const struct tern_privacy_settings none = {0.0, 0.0, 0.0};
    const struct tern_privacy_settings derived = {1.0, 0.0, 8.0};
    const struct tern_privacy_settings same = {1.0, 1e-6, 8.0};
    assert_true(isinf(tern_privacy_loss_before(&none, 100)));
    assert_true(tern_privacy_loss_before(&derived, 20000) ==
                tern_privacy_loss_before(&same, 20000));
}

TEST(test_delta_is_below_one_client)
{
    assert_near(tern_privacy_delta(2), 1e-5, 1e-12);
    assert_near(tern_privacy_delta(10000), 1e-5, 1e-12);
    assert_near(tern_privacy_delta(10001), 1e-6, 1e-12);
    assert_near(tern_privacy_delta(1000000), 1e-7, 1e-12);
    assert_true(tern_privacy_delta(UINT64_MAX) > 0.0);
}
