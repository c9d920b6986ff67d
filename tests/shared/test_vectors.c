// libtern against tests/vectors, which an independent encoder wrote from docs/FORMAT.md.
#include "check.h"
#include "vectors.h"

#include "codec/container.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include "wire/wire.h"
#include <stdlib.h>
#include <string.h>

static struct vectors v;
static float input[VECTOR_VALUES_MAX];
static float expected[VECTOR_VALUES_MAX];
static float actual[VECTOR_VALUES_MAX];
static uint8_t bytes[VECTOR_LINE_MAX / 2];
static uint8_t encoded[VECTOR_LINE_MAX];

static void expect_key(const char *key)
{
    assert_true(vectors_next(&v));
    assert_string_equal(v.key, key);
}

static void check_codec_case(const struct tern_codec *codec)
{
    expect_key("input");
    size_t count = vectors_floats(&v, input);
    memcpy(actual, input, count * sizeof(float));
    size_t written = 0;
    enum tern_result result = tern_codec_encode(codec, NULL, actual, count, encoded,
                                                tern_codec_bound(codec, count), &written);
    assert_true(vectors_next(&v));
    if (strcmp(v.key, "refused") == 0) {
        assert_string_equal(tern_result_name(result), v.rest);
        assert_same_floats(actual, input, count);
        return;
    }
    assert_int_equal(result, TERN_OK);
    assert_string_equal(v.key, "payload");
    assert_int_equal(vectors_bytes(&v, bytes), written);
    assert_memory_equal(encoded, bytes, written);
    expect_key("values");
    assert_int_equal(vectors_floats(&v, expected), count);
    assert_int_equal(tern_codec_decode(encoded, written, input, count), TERN_OK);
    assert_same_floats(input, expected, count);
    expect_key("residual");
    vectors_floats(&v, expected);
    assert_same_floats(actual, expected, count);
}

static void test_codecs(void **state)
{
    (void)state;
    unsigned cases = 0;
    vectors_open(&v, "codecs.txt");
    for (; vectors_next(&v); cases++) {
        assert_string_equal(v.key, "case");
        vectors_word(&v);
        struct tern_codec codec;
        assert_int_equal(tern_codec_parse(v.rest, &codec, NULL), TERN_OK);
        check_codec_case(&codec);
    }
    assert_true(cases > 150);
}

static void test_payloads(void **state)
{
    (void)state;
    unsigned cases = 0;
    vectors_open(&v, "payloads.txt");
    for (; vectors_next(&v); cases++) {
        assert_string_equal(v.key, "payload");
        char name[64];
        snprintf(name, sizeof name, "%s", vectors_word(&v));
        size_t count = strtoul(vectors_word(&v), NULL, 10);
        size_t len = vectors_bytes(&v, bytes);
        enum tern_result result = tern_codec_decode(bytes, len, actual, count);
        assert_true(vectors_next(&v));
        if (strcmp(v.key, "refused") == 0) {
            if (strcmp(tern_result_name(result), v.rest) != 0) {
                fail_msg("%s: %s, not %s", name, tern_result_name(result), v.rest);
            }
            continue;
        }
        if (result != TERN_OK) {
            fail_msg("%s: %s", name, tern_result_name(result));
        }
        assert_int_equal(vectors_floats(&v, expected), count);
        assert_same_floats(actual, expected, count);
    }
    assert_true(cases > 100);
}

static void expect_hex(const uint8_t *data, const char *hex)
{
    char text[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(data, TERN_SHA256_SIZE, text);
    assert_string_equal(text, hex);
}

static void check_tensor(const struct tern_tensor *tensor)
{
    assert_string_equal(tensor->name, vectors_word(&v));
    char *dims = vectors_word(&v);
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        assert_int_equal(tensor->dims[i], strtoul(dims, &dims, 10));
        dims += *dims == 'x';
    }
    assert_string_equal(dims, "");
    assert_int_equal(tensor->offset, strtoul(vectors_word(&v), NULL, 10));
    assert_int_equal(bits_of(tensor->init_bound), strtoul(vectors_word(&v), NULL, 16));
}

static void check_weights(const struct tern_model *model)
{
    uint64_t seed = strtoull(vectors_word(&v), NULL, 10);
    float *weights = malloc(model->count * sizeof *weights);
    uint8_t *raw = malloc(model->count * sizeof *weights);
    uint8_t digest[TERN_SHA256_SIZE];
    tern_model_init_weights(model, seed, weights);
    for (uint32_t i = 0; i < model->count; i++) {
        tern_put_f32(raw + 4 * i, weights[i]);
    }
    tern_sha256(raw, 4 * model->count, digest);
    expect_hex(digest, vectors_word(&v));
    assert_same_floats(weights, expected, vectors_floats(&v, expected));
    free(raw);
    free(weights);
}

static void check_replica(const struct tern_model *model)
{
    uint8_t id[TERN_SHA256_SIZE];
    tern_replica_from_seed(model->hash, strtoull(vectors_word(&v), NULL, 10), id);
    expect_hex(id, v.rest);
}

static void test_models(void **state)
{
    (void)state;
    struct tern_model model = {0};
    uint32_t segments = 0;
    uint32_t tensors = 0;
    vectors_open(&v, "models.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "model") == 0) {
            assert_int_equal(segments, model.segment_count);
            assert_int_equal(tensors, model.tensor_count);
            segments = tensors = 0;
            assert_int_equal(tern_model_from_spec(&model, vectors_word(&v)), TERN_OK);
            assert_int_equal(model.count, strtoul(v.rest, NULL, 10));
        } else if (strcmp(v.key, "hash") == 0) {
            expect_hex(model.hash, v.rest);
        } else if (strcmp(v.key, "segment") == 0) {
            const struct tern_segment *segment = &model.segments[segments++];
            assert_int_equal(segment->offset, strtoul(vectors_word(&v), NULL, 10));
            assert_int_equal(segment->count, strtoul(v.rest, NULL, 10));
        } else if (strcmp(v.key, "tensor") == 0) {
            check_tensor(&model.tensors[tensors++]);
        } else if (strcmp(v.key, "weights") == 0) {
            check_weights(&model);
        } else {
            assert_string_equal(v.key, "replica");
            check_replica(&model);
        }
    }
    assert_true(tensors > 0 && tensors == model.tensor_count);
}

static void test_containers(void **state)
{
    (void)state;
    unsigned cases = 0;
    vectors_open(&v, "containers.txt");
    for (; vectors_next(&v); cases++) {
        struct tern_model model;
        struct tern_codec codec;
        assert_string_equal(v.key, "container");
        assert_int_equal(tern_model_from_spec(&model, vectors_word(&v)), TERN_OK);
        assert_int_equal(tern_codec_parse(v.rest, &codec, NULL), TERN_OK);
        expect_key("input");
        assert_int_equal(vectors_floats(&v, actual), model.count);
        size_t written = 0;
        assert_int_equal(
            tern_container_encode(&codec, NULL, &model, actual, encoded, sizeof encoded, &written),
            TERN_OK);
        expect_key("bytes");
        assert_int_equal(vectors_bytes(&v, bytes), written);
        assert_memory_equal(encoded, bytes, written);
        expect_key("residual");
        vectors_floats(&v, expected);
        assert_same_floats(actual, expected, model.count);
        expect_key("values");
        vectors_floats(&v, expected);
        assert_int_equal(tern_container_decode(&model, encoded, written, actual), TERN_OK);
        assert_same_floats(actual, expected, model.count);
    }
    assert_true(cases >= 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codecs),
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_containers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
