#include "check.h"

#include "error_feedback/error_buffer.h"
#include <float.h>
#include <math.h>
#include <string.h>

// softmax:64-10: a large segment of 640 values and a fused one of 10.
enum { COUNT = 650, BOUND = 4 * COUNT + 32 };

static struct tern_model model;
static struct tern_codec codec;
static float values[COUNT], change[COUNT], before[COUNT];
static struct tern_error_buffer buffer;
static struct tern_prng rng;

static int start(void **state)
{
    (void)state;
    tern_prng_init(&rng, 31, TERN_PRNG_TEST, 0, 0);
    assert_int_equal(tern_codec_parse("3lc:s=1.75", &codec, NULL), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "softmax:64-10"), TERN_OK);
    assert_int_equal(model.count, COUNT);
    buffer = (struct tern_error_buffer){values, COUNT};
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = normal_float(&rng);
        change[i] = normal_float(&rng);
    }
    memcpy(before, values, sizeof before);
    return 0;
}

static void test_add(void **state)
{
    (void)state;
    assert_int_equal(tern_error_buffer_add(&buffer, change), TERN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == before[i] + change[i]);
    }
}

static void test_add_refuses_what_is_not_finite(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        change[COUNT - 1] = bad[i];
        assert_int_equal(tern_error_buffer_add(&buffer, change), TERN_ERR_NON_FINITE);
        assert_same_floats(values, before, COUNT);
    }
    change[COUNT - 1] = values[COUNT - 1] = before[COUNT - 1] = FLT_MAX; // the sum overflows
    assert_int_equal(tern_error_buffer_add(&buffer, change), TERN_ERR_NON_FINITE);
    assert_same_floats(values, before, COUNT);
}

static void test_take_then_give_back(void **state)
{
    (void)state;
    uint8_t bytes[BOUND];
    size_t written = 0;
    assert_int_equal(
        tern_error_buffer_take(&buffer, &codec, NULL, &model, bytes, sizeof bytes, &written),
        TERN_OK);
    assert_true(written < COUNT);
    assert_memory_not_equal(values, before, sizeof values);
    assert_int_equal(tern_error_buffer_give_back(&buffer, &model, bytes, written), TERN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        // (t - d) + d: each step rounds once, and |d| < 2 * 1.75 * max.
        assert_true(fabsf(values[i] - before[i]) <= 16 * 0x1p-23f);
    }
    memcpy(before, values, sizeof before);
    bytes[written - 1] ^= 0xff;
    assert_int_not_equal(tern_error_buffer_give_back(&buffer, &model, bytes, written - 1), TERN_OK);
    assert_same_floats(values, before, COUNT);
}

// Over many rounds, some given back: sum of changes = sum of applied + buffer.
static void test_conservation(void **state)
{
    (void)state;
    double owed[COUNT] = {0};
    memset(values, 0, sizeof values);
    for (int round = 0; round < 60; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            change[i] = normal_float(&rng) * 0.1f;
            owed[i] += (double)change[i];
        }
        uint8_t bytes[BOUND];
        size_t written = 0;
        assert_int_equal(tern_error_buffer_add(&buffer, change), TERN_OK);
        assert_int_equal(
            tern_error_buffer_take(&buffer, &codec, NULL, &model, bytes, sizeof bytes, &written),
            TERN_OK);
        if (round % 3 == 0) { // late: not applied
            assert_int_equal(tern_error_buffer_give_back(&buffer, &model, bytes, written), TERN_OK);
            continue;
        }
        float decoded[COUNT];
        assert_int_equal(tern_container_decode(&model, bytes, written, decoded), TERN_OK);
        for (size_t i = 0; i < COUNT; i++) {
            owed[i] -= (double)decoded[i];
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabs(owed[i] - (double)values[i]) <= 1e-4);
    }
}

static void test_decay(void **state)
{
    (void)state;
    const float bad[] = {-0.1f, 1.001f, NAN, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tern_error_buffer_decay(&buffer, bad[i]), TERN_ERR_ARGUMENT);
    }
    assert_int_equal(tern_error_buffer_decay(&buffer, 1), TERN_OK);
    assert_same_floats(values, before, COUNT);
    assert_int_equal(tern_error_buffer_decay(&buffer, 0.25f), TERN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == 0.25f * before[i]);
    }
    const float zeros[COUNT] = {0};
    assert_int_equal(tern_error_buffer_decay(&buffer, 0), TERN_OK);
    assert_same_floats(values, zeros, COUNT);
}

static void test_facts(void **state)
{
    (void)state;
    memset(values, 0, sizeof values);
    values[0] = 3;
    values[COUNT - 1] = -4;
    struct tern_error_facts facts = tern_error_buffer_facts(&buffer);
    assert_true(facts.norm == 5 && facts.maximum == 4);
    values[1] = values[2] = FLT_MAX; // the norm is above float32
    facts = tern_error_buffer_facts(&buffer);
    assert_true(facts.norm == FLT_MAX && facts.maximum == FLT_MAX);
    memset(values, 0, sizeof values);
    facts = tern_error_buffer_facts(&buffer);
    assert_true(facts.norm == 0 && facts.maximum == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_add, start),
        cmocka_unit_test_setup(test_add_refuses_what_is_not_finite, start),
        cmocka_unit_test_setup(test_take_then_give_back, start),
        cmocka_unit_test_setup(test_conservation, start),
        cmocka_unit_test_setup(test_decay, start),
        cmocka_unit_test_setup(test_facts, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
