#include "check.h"

#include "codec/container.h"
#include "util/bytes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// mlp:40-30-20-5: one large segment of 1200, one of 600, and four fused tensors of 155 values.
enum { COUNT = 1955, BOUND = 4 * COUNT + 64 };

static struct tern_model model;
static struct tern_codec codec;
static float values[COUNT], before[COUNT];
static uint8_t bytes[BOUND];
static size_t len;

static int start(void **state)
{
    (void)state;
    struct tern_prng rng;
    tern_prng_init(&rng, 21, TERN_PRNG_TEST, 0, 0);
    assert_int_equal(tern_codec_parse("3lc:s=1.5", &codec, NULL), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "mlp:40-30-20-5"), TERN_OK);
    assert_int_equal(model.count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        before[i] = values[i] = normal_float(&rng) * (i < 1200 ? 1.0f : 1e-3f);
    }
    assert_int_equal(tern_container_encode(&codec, NULL, &model, values, bytes, sizeof bytes, &len),
                     TERN_OK);
    return 0;
}

// Walks to segment `wanted`; returns where its length stands.
static size_t segment_at(uint32_t wanted, uint64_t *payload, size_t *length_bytes)
{
    size_t at = 0;
    for (uint32_t i = 0;; i++) {
        *length_bytes = tern_get_varint(bytes + at, len - at, payload);
        assert_true(*length_bytes > 0);
        if (i == wanted) {
            return at;
        }
        at += *length_bytes + (size_t)*payload;
    }
}

static void test_segments_are_payloads_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(model.segment_count, 3);
    size_t end = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const struct tern_segment *segment = &model.segments[i];
        uint64_t payload = 0;
        size_t length_bytes = 0;
        size_t at = segment_at(i, &payload, &length_bytes);
        assert_int_equal(at, end);
        float alone[COUNT];
        uint8_t expected[BOUND];
        size_t written = 0;
        memcpy(alone, before + segment->offset, segment->count * sizeof *alone);
        assert_int_equal(tern_codec_encode(&codec, NULL, alone, segment->count, expected,
                                           sizeof expected, &written),
                         TERN_OK);
        assert_int_equal(payload, written);
        assert_memory_equal(bytes + at + length_bytes, expected, written);
        assert_same_floats(values + segment->offset, alone, segment->count);
        end = at + length_bytes + written;
    }
    assert_int_equal(end, len);
}

static void test_decoded_plus_rest_is_input(void **state)
{
    (void)state;
    float decoded[COUNT];
    float sum[COUNT];
    assert_int_equal(tern_container_decode(&model, bytes, len, decoded), TERN_OK);
    memcpy(sum, values, sizeof sum);
    assert_int_equal(tern_container_accumulate(&model, bytes, len, 1, sum), TERN_OK);
    float added[COUNT];
    memcpy(added, values, sizeof added);
    assert_int_equal(tern_container_add(&model, bytes, len, 1, added), TERN_OK);
    assert_same_floats(added, sum, COUNT);
    size_t in_small_tensors = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == before[i] - decoded[i]);
        assert_true(fabsf(sum[i] - before[i]) <= fabsf(before[i]) * 0x1p-22f);
        in_small_tensors += i >= 1200 && decoded[i] != 0;
    }
    // Their values are a thousandth of the first tensor's, which does not silence them.
    assert_true(in_small_tensors > 0);
}

static void test_inspect_adds_up(void **state)
{
    (void)state;
    float decoded[COUNT];
    struct tern_codec_info info;
    assert_int_equal(tern_container_decode(&model, bytes, len, decoded), TERN_OK);
    assert_int_equal(tern_container_inspect(&model, bytes, len, &info), TERN_OK);
    size_t nonzero = 0;
    double sum = 0;
    float maximum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        nonzero += decoded[i] != 0;
        sum += (double)decoded[i] * (double)decoded[i];
        maximum = fmaxf(maximum, fabsf(decoded[i]));
    }
    assert_int_equal(info.nonzero, nonzero);
    assert_true(info.maximum == maximum && info.scale == maximum);
    assert_true(fabs(info.sum_square - sum) <= sum * 1e-12);
    assert_true(info.ternary);
    assert_true(info.runs > 0);
}

static void test_encode_errors_change_nothing(void **state)
{
    (void)state;
    size_t written = 99;
    // The last value is in the last segment: the earlier ones must not be encoded by then.
    before[COUNT - 1] = NAN;
    memcpy(values, before, sizeof values);
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, values, bytes, sizeof bytes, &written),
        TERN_ERR_NON_FINITE);
    assert_same_floats(values, before, COUNT);
    before[COUNT - 1] = 3e38f; // times 1.5 overflows
    memcpy(values, before, sizeof values);
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, values, bytes, sizeof bytes, &written),
        TERN_ERR_NON_FINITE);
    assert_same_floats(values, before, COUNT);
    size_t bound = tern_container_bound(&codec, &model);
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, values, bytes, bound - 1, &written),
        TERN_ERR_NO_SPACE);
    assert_same_floats(values, before, COUNT);
    assert_int_equal(written, 99);
}

static void test_bound_is_reached_and_kept(void **state)
{
    (void)state;
    static const char *const specs[] = {"float32", "float16", "3lc:s=1"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tern_codec_parse(specs[i], &codec, NULL), TERN_OK);
        for (size_t k = 0; k < COUNT; k++) {
            values[k] = 1;
        }
        size_t bound = tern_container_bound(&codec, &model);
        assert_true(bound < sizeof bytes);
        bytes[bound] = 0xa5;
        assert_int_equal(tern_container_encode(&codec, NULL, &model, values, bytes, bound, &len),
                         TERN_OK);
        assert_int_equal(len, bound);
        assert_int_equal(bytes[bound], 0xa5);
    }
}

// Decodes and adds a copy that ends where its allocation does, so that ASan sees an over-read.
static void expect_refused(const uint8_t *data, size_t data_len)
{
    uint8_t *exact = malloc(data_len > 0 ? data_len : 1);
    float out[COUNT];
    struct tern_codec_info info;
    memcpy(exact, data, data_len);
    memcpy(out, before, sizeof out);
    assert_int_not_equal(tern_container_decode(&model, exact, data_len, out), TERN_OK);
    assert_int_not_equal(tern_container_accumulate(&model, exact, data_len, 1, out), TERN_OK);
    assert_int_not_equal(tern_container_inspect(&model, exact, data_len, &info), TERN_OK);
    assert_same_floats(out, before, COUNT);
    assert_int_not_equal(tern_container_add(&model, exact, data_len, 1, out), TERN_OK);
    free(exact);
}

static void test_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        expect_refused(bytes, cut);
    }
    bytes[len] = 0;
    expect_refused(bytes, len + 1);
}

static void test_lengths_are_checked(void **state)
{
    (void)state;
    uint64_t payload = 0;
    size_t length_bytes = 0;
    size_t at = segment_at(2, &payload, &length_bytes);
    assert_int_equal(length_bytes, 1);
    uint8_t good = bytes[at];
    for (unsigned length = 0; length < 128; length++) {
        bytes[at] = (uint8_t)length;
        if (length != good) {
            expect_refused(bytes, len);
        }
    }
    // 2^64 - 1 must not wrap around the end.
    uint8_t wrapped[BOUND];
    memcpy(wrapped, bytes, at);
    size_t wrapped_len = at + tern_put_varint(wrapped + at, UINT64_MAX);
    memcpy(wrapped + wrapped_len, bytes + at + 1, good);
    expect_refused(wrapped, wrapped_len + good);
}

static void test_damage_in_the_last_segment_changes_nothing(void **state)
{
    (void)state;
    uint64_t payload = 0;
    size_t length_bytes = 0;
    size_t at = segment_at(2, &payload, &length_bytes);
    bytes[at + length_bytes] = 0x7e; // no such mode
    expect_refused(bytes, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_segments_are_payloads_of_their_own, start),
        cmocka_unit_test_setup(test_decoded_plus_rest_is_input, start),
        cmocka_unit_test_setup(test_inspect_adds_up, start),
        cmocka_unit_test_setup(test_encode_errors_change_nothing, start),
        cmocka_unit_test_setup(test_bound_is_reached_and_kept, start),
        cmocka_unit_test_setup(test_cut_anywhere_is_refused, start),
        cmocka_unit_test_setup(test_lengths_are_checked, start),
        cmocka_unit_test_setup(test_damage_in_the_last_segment_changes_nothing, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
