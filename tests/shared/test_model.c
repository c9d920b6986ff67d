#include "check.h"

#include "tensor/model.h"
#include "tests/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct tern_model model;

static void add(const char *name, uint32_t count)
{
    assert_int_equal(tern_model_add(&model, name, &count, 1, 0.5f), TERN_OK);
}

static int start(void **state)
{
    (void)state;
    memset(&model, 0, sizeof model);
    return 0;
}

CASE_WITH(test_large_first_small_fused, start, NULL)
{
    add("small1", 511);
    add("large1", 512);
    add("small2", 1);
    add("large2", 1000);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(model.count, 511 + 512 + 1 + 1000);
    const uint32_t offsets[] = {1512, 0, 2023, 512};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(model.tensors[i].offset, offsets[i]);
    }
    const struct tern_segment segments[] = {{.offset = 0, .count = 512},
                                            {.offset = 512, .count = 1000},
                                            {.offset = 1512, .count = 512}};
    assert_int_equal(model.segment_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(model.segments[i].offset, segments[i].offset);
        assert_int_equal(model.segments[i].count, segments[i].count);
    }
    assert_int_equal(model.coded, model.count);
}

CASE_WITH(test_only_large_or_only_small, start, NULL)
{
    add("a", 600);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(model.segment_count, 1);
    assert_int_equal(model.segments[0].count, 600);
    memset(&model, 0, sizeof model);
    add("a", 5);
    add("b", 6);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(model.segment_count, 1);
    assert_int_equal(model.segments[0].count, 11);
}

CASE_WITH(test_layout_may_be_repeated, start, NULL)
{
    add("a", 600);
    add("b", 6);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    struct tern_model first = model;
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_memory_equal(&first, &model, sizeof model);
}

static void refuse(const char *name, const uint32_t *dims, uint32_t dim_count, float bound,
                   enum tern_result expected)
{
    struct tern_model before = model;
    assert_int_equal(tern_model_add(&model, name, dims, dim_count, bound), expected);
    assert_memory_equal(&before, &model, sizeof model);
}

CASE_WITH(test_add_refuses, start, NULL)
{
    char longest[TERN_TENSOR_NAME_MAX + 1];
    memset(longest, 'n', sizeof longest);
    longest[TERN_TENSOR_NAME_MAX] = '\0';
    uint32_t one[TERN_TENSOR_MAX_DIMS + 1];
    for (size_t i = 0; i <= TERN_TENSOR_MAX_DIMS; i++) {
        one[i] = 1;
    }
    const uint32_t zero[2] = {3, 0};
    const uint32_t huge[4] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    add("taken", 1);
    refuse("taken", one, 1, 0, TERN_ERR_ARGUMENT);
    refuse("", one, 1, 0, TERN_ERR_ARGUMENT);
    refuse(longest, one, 1, 0, TERN_ERR_ARGUMENT);
    refuse("t", one, 0, 0, TERN_ERR_ARGUMENT);
    refuse("t", one, TERN_TENSOR_MAX_DIMS + 1, 0, TERN_ERR_ARGUMENT);
    refuse("t", zero, 2, 0, TERN_ERR_ARGUMENT);
    refuse("t", one, 1, -1, TERN_ERR_ARGUMENT);
    refuse("t", one, 1, -0.0f, TERN_ERR_ARGUMENT);
    refuse("t", one, 1, INFINITY, TERN_ERR_ARGUMENT);
    refuse("t", one, 1, NAN, TERN_ERR_ARGUMENT);
    refuse("t", huge, 4, 0, TERN_ERR_TOO_LARGE);
    const uint32_t rest = TERN_MODEL_MAX_VALUES;
    refuse("t", &rest, 1, 0, TERN_ERR_TOO_LARGE); // one value is there already
    longest[TERN_TENSOR_NAME_MAX - 1] = '\0';
    add(longest, 1);
}

CASE_WITH(test_empty_or_full, start, NULL)
{
    assert_int_equal(tern_model_layout(&model), TERN_ERR_ARGUMENT);
    for (int i = 0; i < TERN_MODEL_MAX_TENSORS; i++) {
        char name[] = {(char)('A' + i / 26), (char)('a' + i % 26), '\0'};
        add(name, 512);
    }
    const uint32_t one = 1;
    refuse("more", &one, 1, 0, TERN_ERR_TOO_LARGE);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    assert_int_equal(model.segment_count, TERN_MODEL_MAX_TENSORS);
}

static void hash_of(const char *name, uint32_t a, uint32_t b, float bound,
                    uint8_t hash[TERN_SHA256_SIZE])
{
    const uint32_t dims[] = {a, b};
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_add(&model, name, dims, 2, bound), TERN_OK);
    assert_int_equal(tern_model_layout(&model), TERN_OK);
    memcpy(hash, model.hash, TERN_SHA256_SIZE);
}

CASE_WITH(test_hash_names_the_manifest, start, NULL)
{
    uint8_t hashes[5][TERN_SHA256_SIZE];
    hash_of("a", 2, 3, 0.5f, hashes[0]);
    hash_of("b", 2, 3, 0.5f, hashes[1]);
    hash_of("a", 3, 2, 0.5f, hashes[2]);
    hash_of("a", 2, 3, 0.25f, hashes[3]);
    hash_of("a", 2, 3, 0.5f, hashes[4]);
    for (int i = 1; i < 4; i++) {
        assert_memory_not_equal(hashes[0], hashes[i], TERN_SHA256_SIZE);
    }
    assert_memory_equal(hashes[0], hashes[4], TERN_SHA256_SIZE);
}

CASE_WITH(test_bad_specs, start, NULL)
{
    static const char *const bad[] = {
        "",
        "mlp",
        "mlp:",
        "mlp:1-2",
        "softmax:1-2-3",
        "softmax:1",
        "softmax:0-2",
        "softmax:01-2",
        "softmax:-1-2",
        "softmax:1-2-",
        "softmax:1 -2",
        "softmax:1x2",
        "cnn:28x28-1-2-3-4",
        "cnn:28x28x1-2-3",
        "cnn:3x28x1-2-3-4",
        "cnn:28x28x1-2-3-4-5",
        "mlp:1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1",
        "MLP:1-2-3",
        "mlp:2-+3-4",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (tern_model_from_spec(&model, bad[i]) != TERN_ERR_ARGUMENT) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
    static const char *const large[] = {
        "softmax:99999999999999999999-2",
        "softmax:65536-65536",
        "mlp:16384-16384-1",
        "cnn:65536x65536x1-1-1-2",
        "cnn:268435456x268435456x268435456-268435456-268435456-268435456",
    };
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        if (tern_model_from_spec(&model, large[i]) != TERN_ERR_TOO_LARGE) {
            fail_msg("\"%s\" was not too large", large[i]);
        }
    }
}

CASE_WITH(test_specs_need_no_cleared_model, start, NULL)
{
    struct tern_model again;
    memset(&again, 0xa5, sizeof again);
    assert_int_equal(tern_model_from_spec(&model, "mlp:784-128-10"), TERN_OK);
    assert_int_equal(tern_model_from_spec(&again, "mlp:784-128-10"), TERN_OK);
    assert_memory_equal(model.hash, again.hash, TERN_SHA256_SIZE);
    assert_string_equal(again.tensors[3].name, "fc2.bias");
}

CASE_WITH(test_initial_weights, start, NULL)
{
    assert_int_equal(tern_model_from_spec(&model, "mlp:784-128-10"), TERN_OK);
    float *a = malloc(model.count * sizeof *a);
    float *b = malloc(model.count * sizeof *b);
    tern_model_init_weights(&model, 7, a);
    tern_model_init_weights(&model, 8, b);
    for (uint32_t i = 0; i < model.tensor_count; i++) {
        const struct tern_tensor *tensor = &model.tensors[i];
        double sum = 0;
        double largest = 0;
        for (uint32_t k = 0; k < tensor->count; k++) {
            double value = (double)a[tensor->offset + k];
            sum += value;
            largest = fmax(largest, fabs(value));
        }
        // Uniform in +-bound: fills the range, mean near 0; biases are +0.
        double bound = (double)tensor->init_bound;
        assert_true(largest <= bound && largest >= 0.99 * bound);
        assert_true(fabs(sum / tensor->count) <= 0.1 * bound);
    }
    assert_memory_not_equal(a, b, model.count * sizeof *a);
    assert_int_equal(bits_of(a[model.tensors[1].offset]), 0);
    free(b);
    free(a);
}
