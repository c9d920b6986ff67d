// Manifests, and tensors that are sent by a rule of their own: what is dense arrives exactly, what
// is skipped never moves, and neither leaves anything in an error buffer or a velocity.
#include "check.h"

#include "codec/sparse_share.h"
#include "error_feedback/error_buffer.h"
#include "tensor/manifest.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

enum { LARGE = 2000, SMALL_A = 40, SMALL_B = 7, STATS = 90, FROZEN = 600, COUNT = 2738 };

static struct tern_model model;
static uint8_t manifest[TERN_MANIFEST_MAX];
static size_t manifest_len;

static void add(struct tern_model *into, const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(into, name, &count, 1, rule), TERN_OK);
}

static int make(void **state)
{
    (void)state;
    static struct tern_model made;
    tern_model_clear(&made);
    add(&made, "stats", STATS, TERN_RULE_DENSE);
    add(&made, "small.a", SMALL_A, TERN_RULE_FUSE);
    add(&made, "frozen", FROZEN, TERN_RULE_SKIP);
    add(&made, "large", LARGE, TERN_RULE_COMPRESS);
    add(&made, "small.b", SMALL_B, TERN_RULE_FUSE);
    assert_int_equal(tern_model_add_by_rule(&made, "scalar", NULL, 0, TERN_RULE_DENSE), TERN_OK);
    manifest_len = tern_manifest_encode(&made, manifest);
    assert_int_equal(tern_model_from_manifest(&model, manifest, manifest_len), TERN_OK);
    return 0;
}

// --- Layout and bytes

CASE(test_layout_by_rule)
{
    const uint32_t offsets[] = {2047, 2000, 2138, 0, 2040, 2137};
    const uint32_t segments[][2] = {{0, LARGE}, {2000, 47}, {2047, STATS + 1}, {2138, FROZEN}};
    assert_int_equal(model.count, COUNT);
    assert_int_equal(model.coded, LARGE + SMALL_A + SMALL_B);
    assert_int_equal(model.segment_count, 4);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(model.tensors[i].offset, offsets[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(model.segments[i].offset, segments[i][0]);
        assert_int_equal(model.segments[i].count, segments[i][1]);
        assert_int_equal(tern_segment_is_coded(&model.segments[i]), i < 2);
        assert_int_equal(tern_segment_is_skipped(&model.segments[i]), i == 3);
    }
    assert_false(tern_model_is_seeded(&model));
}

// Local tensors are trained, so that they lie before frozen ones, and never sent.
CASE(test_local_tensors_lie_between)
{
    static struct tern_model made;
    float change[10];
    uint32_t first = 0;
    tern_model_clear(&made);
    add(&made, "stem", 2, TERN_RULE_SKIP);
    add(&made, "head", 3, TERN_RULE_LOCAL);
    add(&made, "mean", 1, TERN_RULE_DENSE);
    add(&made, "body", 4, TERN_RULE_COMPRESS);
    assert_int_equal(tern_model_layout(&made), TERN_OK);
    assert_int_equal(made.segment_count, 4);
    const enum tern_rule rules[] = {TERN_RULE_COMPRESS, TERN_RULE_DENSE, TERN_RULE_LOCAL,
                                    TERN_RULE_SKIP};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(made.segments[i].rule, rules[i]);
        assert_int_equal(tern_segment_is_coded(&made.segments[i]), i < 1);
        assert_int_equal(tern_segment_is_skipped(&made.segments[i]), i >= 2);
    }
    assert_int_equal(tern_model_local(&made, &first), 3);
    assert_int_equal(first, 5);
    assert_int_equal(tern_model_trained(&made), 8);
    for (int i = 0; i < 10; i++) {
        change[i] = 1.0F;
    }
    tern_model_freeze(&made, change);
    for (int i = 0; i < 10; i++) {
        assert_true(change[i] == (i < 5 ? 1.0F : 0.0F));
    }
    assert_int_equal(tern_model_local(&model, &first), 0);
}

CASE(test_bytes_as_documented)
{
    const uint8_t expected[] = {'T', 'M', 'F', '1', 2, 0, 1, 'w', 2, 3, 0xac, 2, 3, 2, 'b', 'n', 0};
    static struct tern_model made;
    static struct tern_model read;
    uint8_t hash[TERN_SHA256_SIZE];
    const uint32_t dims[] = {3, 300};
    tern_model_clear(&made);
    assert_int_equal(tern_model_add_by_rule(&made, "w", dims, 2, TERN_RULE_COMPRESS), TERN_OK);
    assert_int_equal(tern_model_add_by_rule(&made, "bn", NULL, 0, TERN_RULE_SKIP), TERN_OK);
    uint8_t bytes[TERN_MANIFEST_MAX];
    assert_int_equal(tern_manifest_encode(&made, bytes), sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_int_equal(tern_model_from_manifest(&read, bytes, sizeof expected), TERN_OK);
    tern_sha256(expected, sizeof expected, hash);
    assert_memory_equal(read.hash, hash, sizeof hash);
    assert_int_equal(read.tensors[0].count, 900);
    assert_int_equal(read.tensors[1].count, 1);
}

CASE(test_largest_fits)
{
    static struct tern_model made;
    static struct tern_model read;
    uint32_t dims[TERN_TENSOR_MAX_DIMS] = {0};
    for (uint32_t i = 0; i < TERN_TENSOR_MAX_DIMS; i++) {
        dims[i] = i == 0 ? TERN_MODEL_MAX_VALUES / TERN_MODEL_MAX_TENSORS : 1;
    }
    tern_model_clear(&made);
    for (uint32_t i = 0; i < TERN_MODEL_MAX_TENSORS; i++) {
        char name[TERN_TENSOR_NAME_MAX];
        memset(name, 'n', sizeof name - 1);
        name[sizeof name - 1] = '\0';
        name[0] = (char)('A' + i / 40);
        name[1] = (char)('A' + i % 40);
        assert_int_equal(
            tern_model_add_by_rule(&made, name, dims, TERN_TENSOR_MAX_DIMS, TERN_RULE_COMPRESS),
            TERN_OK);
    }
    static uint8_t bytes[TERN_MANIFEST_MAX];
    const size_t len = tern_manifest_encode(&made, bytes);
    assert_in_range(len, 1, TERN_MANIFEST_MAX);
    assert_int_equal(tern_model_from_manifest(&read, bytes, len), TERN_OK);
    assert_int_equal(read.segment_count, TERN_MODEL_MAX_TENSORS);
}

// --- Hostile bytes

CASE(test_cut_or_longer)
{
    static struct tern_model read;
    for (size_t len = 0; len < manifest_len; len++) {
        assert_int_equal(tern_model_from_manifest(&read, manifest, len), TERN_ERR_CORRUPT);
    }
    uint8_t longer[TERN_MANIFEST_MAX];
    memcpy(longer, manifest, manifest_len);
    longer[manifest_len] = 0;
    assert_int_equal(tern_model_from_manifest(&read, longer, manifest_len + 1), TERN_ERR_CORRUPT);
}

static void refuse(const char *bytes, size_t len, enum tern_result expected)
{
    static struct tern_model read;
    assert_int_equal(tern_model_from_manifest(&read, (const uint8_t *)bytes, len), expected);
}
#define REFUSE(text, expected) refuse(text, sizeof text - 1, expected)

CASE(test_hostile)
{
    REFUSE("TMF1\x00", TERN_ERR_ARGUMENT);                           // no tensor
    REFUSE("TMF2\x01\x00\x01w\x00", TERN_ERR_CORRUPT);               // another format
    REFUSE("TMF1\x01\x05\x01w\x00", TERN_ERR_CORRUPT);               // no such rule
    REFUSE("TMF1\x01\x00\x00\x00", TERN_ERR_ARGUMENT);               // no name
    REFUSE("TMF1\x01\x00\x01\xff\x00", TERN_ERR_CORRUPT);            // not UTF-8
    REFUSE("TMF1\x01\x00\x02w\x00\x00", TERN_ERR_CORRUPT);           // NUL in the name
    REFUSE("TMF1\x01\x00\x01\x1b\x00", TERN_ERR_CORRUPT);            // control character
    REFUSE("TMF1\x01\x00\x01w\x09", TERN_ERR_CORRUPT);               // 9 dimensions
    REFUSE("TMF1\x01\x00\x01w\x01\x00", TERN_ERR_ARGUMENT);          // no values
    REFUSE("TMF1\x81\x00\x00\x01w\x00", TERN_ERR_CORRUPT);           // long form of a number
    REFUSE("TMF1\x02\x00\x01w\x00\x00\x01w\x00", TERN_ERR_ARGUMENT); // the same name twice
    REFUSE("TMF1\xff\xff\xff\xff\x0f\x00", TERN_ERR_TOO_LARGE);      // a count beyond the limit
    REFUSE("TMF1\x01\x00\xff\x7f", TERN_ERR_TOO_LARGE);              // a name beyond the limit
    REFUSE("TMF1\x01\x00\x01w\x02\x80\x80\x80\x40\x80\x80\x80\x40", TERN_ERR_TOO_LARGE);
}

CASE(test_build_compares_hashes)
{
    static struct tern_model built;
    uint8_t hash[TERN_SHA256_SIZE];
    memcpy(hash, model.hash, sizeof hash);
    assert_int_equal(tern_model_build(&built, "any", manifest, manifest_len, hash), TERN_OK);
    hash[31] ^= 1;
    assert_int_equal(tern_model_build(&built, "any", manifest, manifest_len, hash),
                     TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(tern_model_build(&built, "any", NULL, 0, hash), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(tern_model_from_spec(&built, "softmax:8-3"), TERN_OK);
    assert_true(tern_model_is_seeded(&built));
    memcpy(hash, built.hash, sizeof hash);
    assert_int_equal(tern_model_build(&built, "softmax:8-3", NULL, 0, hash), TERN_OK);
    assert_int_equal(tern_model_build(&built, "softmax:8-3", manifest, manifest_len, hash),
                     TERN_ERR_MODEL_MISMATCH);
}

// --- Containers

static float change_at(uint32_t i)
{
    return (float)((int)(i * 7919 % 2001) - 1000) / 1000.0F;
}

static void fill(float values[COUNT])
{
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = change_at(i);
    }
    tern_model_freeze(&model, values);
}

static void check_rest_is_exact(const float *decoded, const float *left)
{
    for (uint32_t i = model.coded; i < COUNT; i++) {
        const float expected = i < model.coded + STATS + 1 ? change_at(i) : 0.0F;
        assert_memory_equal(&decoded[i], &expected, sizeof expected);
        assert_memory_equal(&left[i], &(float){0.0F}, sizeof(float));
    }
}

static void check_codec(const char *spec)
{
    struct tern_codec codec;
    static float values[COUNT];
    static float decoded[COUNT];
    static float velocity[COUNT];
    struct tern_codec_info info;
    const struct tern_encode_context context = {.seed = 1, .round = 1, .velocity = velocity};
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    fill(values);
    memset(velocity, 0, sizeof velocity);
    assert_int_equal(tern_error_momentum(velocity, codec.momentum, values, model.coded), TERN_OK);
    const size_t bound = tern_container_bound(&codec, &model);
    assert_in_range(bound, 1, tern_container_bound_any(&model));
    uint8_t *bytes = malloc(bound);
    size_t len = 0;
    assert_int_equal(tern_container_encode(&codec, &context, &model, values, bytes, bound, &len),
                     TERN_OK);
    assert_int_equal(tern_container_inspect(&model, bytes, len, &info), TERN_OK);
    assert_int_equal(info.skipped_nonzero, 0);
    assert_int_equal(tern_container_decode(&model, bytes, len, decoded), TERN_OK);
    check_rest_is_exact(decoded, values);
    for (uint32_t i = model.coded; i < COUNT; i++) {
        assert_true(velocity[i] == 0.0F);
    }
    free(bytes);
}

CASE(test_dense_is_exact_under_every_codec)
{
    static const char *const specs[] = {"float32",  "float16", "bfloat16",           "int8",
                                        "onebit",   "qsgd",    "inceptionn",         "3lc:s=1.75",
                                        "density",  "sparse",  "stochastic-ternary", "dgc",
                                        "scalecom", "uniform", "3lc:coder=range"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        check_codec(specs[i]);
    }
}

// A snapshot's values are the weights themselves: those of frozen tensors travel, too.
CASE(test_snapshot_holds_frozen_weights)
{
    struct tern_codec codec;
    struct tern_codec_info info;
    static float values[COUNT];
    static float decoded[COUNT];
    static uint8_t bytes[COUNT * 8];
    size_t len = 0;
    assert_int_equal(tern_codec_parse("float16", &codec, NULL), TERN_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = change_at(i);
    }
    assert_int_equal(tern_container_encode(&codec, NULL, &model, values, bytes, sizeof bytes, &len),
                     TERN_OK);
    assert_int_equal(tern_container_decode(&model, bytes, len, decoded), TERN_OK);
    for (uint32_t i = model.coded; i < COUNT; i++) {
        assert_true(decoded[i] == change_at(i));
    }
    // As an update it would be refused.
    assert_int_equal(tern_container_inspect(&model, bytes, len, &info), TERN_OK);
    assert_true(info.skipped_nonzero > FROZEN / 2);
}

static void check_given_back(enum tern_error_storage storage)
{
    struct tern_codec codec;
    static float values[COUNT];
    static float buffer_bytes[COUNT];
    static float back[COUNT];
    static float work[COUNT];
    static uint8_t bytes[COUNT * 8];
    size_t len = 0;
    struct tern_error_buffer buffer = {storage, buffer_bytes, COUNT};
    assert_int_equal(tern_codec_parse("float32", &codec, NULL), TERN_OK);
    fill(values);
    assert_int_equal(tern_container_encode(&codec, NULL, &model, values, bytes, sizeof bytes, &len),
                     TERN_OK);
    tern_error_buffer_reset(&buffer);
    assert_in_range(tern_error_give_back_work(storage, &model), 0, LARGE);
    assert_int_equal(tern_error_buffer_give_back(&buffer, &model, bytes, len, work), TERN_OK);
    tern_error_buffer_load(&buffer, back);
    for (uint32_t i = 0; i < COUNT; i++) {
        const float expected = i < model.coded ? change_at(i) : 0.0F;
        assert_float_equal(back[i], expected, i < model.coded ? 0.01F : 0.0F);
    }
}

CASE(test_dense_is_not_given_back)
{
    check_given_back(TERN_ERROR_FLOAT32);
    check_given_back(TERN_ERROR_BFLOAT16);
    check_given_back(TERN_ERROR_INT8);
}

// A round of scalecom: the leader's indices, a follower's update without them, and joined again.
CASE(test_indices_are_shared_around_dense_segments)
{
    struct tern_codec codec;
    static float values[COUNT];
    static float expected[COUNT];
    static float decoded[COUNT];
    static uint8_t bytes[4][COUNT * 8];
    size_t len[4] = {0};
    assert_int_equal(tern_codec_parse("scalecom:p=0.05", &codec, NULL), TERN_OK);
    fill(values);
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, values, bytes[0], sizeof bytes[0], &len[0]),
        TERN_OK);
    assert_int_equal(
        tern_sparse_indices(&model, &codec, bytes[0], len[0], bytes[1], sizeof bytes[1], &len[1]),
        TERN_OK);
    const struct tern_encode_context context = {.indices = bytes[1], .indices_len = len[1]};
    fill(values);
    assert_int_equal(
        tern_container_encode(&codec, &context, &model, values, bytes[2], sizeof bytes[2], &len[2]),
        TERN_OK);
    assert_int_equal(tern_container_decode(&model, bytes[2], len[2], expected), TERN_OK);
    check_rest_is_exact(expected, values);
    assert_int_equal(
        tern_sparse_strip(&model, bytes[2], len[2], bytes[3], sizeof bytes[3], &len[3]), TERN_OK);
    assert_true(len[3] < len[2]);
    assert_int_equal(tern_sparse_join(&model, bytes[1], len[1], bytes[3], len[3], bytes[0],
                                      sizeof bytes[0], &len[0]),
                     TERN_OK);
    assert_int_equal(tern_container_decode(&model, bytes[0], len[0], decoded), TERN_OK);
    assert_memory_equal(decoded, expected, sizeof decoded);
}

CASES_SHARE(make, NULL)
