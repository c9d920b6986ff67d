#include "tests/cases.h"
#include "util/math.h"
#include <math.h>

CASE(exp_is_that_of_libm)
{
    for (float x = -86.9f; x < 88.7f; x += 0.0113f) {
        double expected = exp((double)x);
        assert_true(fabs((double)tern_expf(x) - expected) <= 3e-7 * expected);
    }
    assert_true(tern_expf(0.0f) == 1.0f);
    assert_true(tern_expf(-88.0f) == 0.0f);
    assert_true(tern_expf(-INFINITY) == 0.0f);
    assert_true(isinf(tern_expf(89.0f)));
    assert_true(isnan(tern_expf(NAN)));
}

CASE(log_is_that_of_libm)
{
    for (float x = 1.2e-38f; x < 3e38f; x *= 1.0037f) {
        double expected = log((double)x);
        assert_true(fabs((double)tern_logf(x) - expected) <= 2e-7 * fabs(expected) + 1e-8);
    }
    assert_true(tern_logf(1.0f) == 0.0f);
    assert_true(tern_logf(0.0f) < -87.0f && tern_logf(0.0f) > -88.0f);
}

CASE(sin_and_cos_are_those_of_libm)
{
    const double pi = 3.14159265358979323846;
    for (float x = -3.0f; x < 3.0f; x += 0.00137f) {
        assert_true(fabs((double)tern_sin_turns(x) - sin(2 * pi * (double)x)) < 3e-7);
        assert_true(fabs((double)tern_cos_turns(x) - cos(2 * pi * (double)x)) < 3e-7);
    }
}

// These bits were computed once; every machine must give them.
CASE(bits_are_the_same_everywhere)
{
    uint32_t digest = 0;
    for (float x = -80.0f; x < 80.0f; x += 0.37f) {
        digest = digest * 31 + tern_float_bits(tern_expf(x));
        digest = digest * 31 + tern_float_bits(tern_logf(x * x + 0.001f));
        digest = digest * 31 + tern_float_bits(tern_sin_turns(x));
    }
    assert_int_equal(digest, 0xe1d8818cu);
}
