#include "check.h"

#include "codec/container.h"
#include "tests/cases.h"
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

CASE_WITH(test_segments_are_payloads_of_their_own, start, NULL)
{
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

CASE_WITH(test_decoded_plus_rest_is_input, start, NULL)
{
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

CASE_WITH(test_inspect_adds_up, start, NULL)
{
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

CASE_WITH(test_encode_errors_change_nothing, start, NULL)
{
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

#if TERN_PARTIALS
// What a sink was given, and how often; it refuses what comes after `most` pieces.
struct taken {
    uint8_t bytes[BOUND];
    size_t len;
    int pieces;
    int most;
};

static enum tern_result take(void *ctx, const uint8_t *data, size_t n)
{
    struct taken *taken = ctx;
    if (taken->pieces == taken->most) {
        return TERN_ERR_IO;
    }
    assert_true(n <= sizeof taken->bytes - taken->len);
    memcpy(taken->bytes + taken->len, data, n);
    taken->len += n;
    taken->pieces++;
    return TERN_OK;
}

CASE_WITH(test_segments_one_by_one_are_the_whole, start, NULL)
{
    static struct taken taken;
    const size_t bound = tern_container_piece_bound(&codec, &model);
    uint8_t *piece = malloc(bound); // whatever is written beyond it is found by the sanitizers
    float rest[COUNT];
    size_t written = 0;
    assert_non_null(piece);
    assert_true(bound < tern_container_bound(&codec, &model));
    struct tern_container_sink sink = {&taken, piece, bound, take};
    for (int most = 3; most >= 0; most--) {
        taken = (struct taken){.most = most};
        memcpy(rest, before, sizeof rest);
        assert_int_equal(tern_container_encode_into(&codec, NULL, &model, rest, &sink, &written),
                         most == 3 ? TERN_OK : TERN_ERR_IO);
        assert_int_equal(taken.pieces, most);
        assert_memory_equal(taken.bytes, bytes, taken.len);
        assert_true(most < 3 || (taken.len == len && written == len));
        assert_true(most < 3 || memcmp(rest, values, sizeof rest) == 0);
    }
    sink.piece_size = bound - 1;
    memcpy(rest, before, sizeof rest);
    assert_int_equal(tern_container_encode_into(&codec, NULL, &model, rest, &sink, &written),
                     TERN_ERR_NO_SPACE);
    assert_same_floats(rest, before, COUNT);
    free(piece);
}

#if !TERN_SMALL
// All segments are added at their own offsets, whether or not the codec adds while it encodes.
CASE_WITH(test_encoder_adds_to_a_replica, start, NULL)
{
    static const char *const specs[] = {"uniform", "3lc", "density:p=0.1", "int8", "float32"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        float encoded[COUNT];
        float decoded[COUNT];
        const struct tern_encode_context context = {.replica = encoded};
        assert_int_equal(tern_codec_parse(specs[i], &codec, NULL), TERN_OK);
        memcpy(values, before, sizeof values);
        memcpy(encoded, before, sizeof encoded);
        memcpy(decoded, before, sizeof decoded);
        assert_int_equal(
            tern_container_encode(&codec, &context, &model, values, bytes, sizeof bytes, &len),
            TERN_OK);
        assert_int_equal(tern_container_add(&model, bytes, len, 1.0F, decoded), TERN_OK);
        assert_memory_equal(encoded, decoded, sizeof encoded);
        assert_true(memcmp(encoded, before, sizeof encoded) != 0);
    }
}
#endif

struct measured {
    uint8_t *bytes;
    size_t len;
    size_t most; // bytes of the longest piece
};

static enum tern_result measure(void *ctx, const uint8_t *data, size_t n)
{
    struct measured *measured = ctx;
    memcpy(measured->bytes + measured->len, data, n);
    measured->len += n;
    measured->most = n > measured->most ? n : measured->most;
    return TERN_OK;
}

// Encodes both ways: the same bytes and the same rest.
static void expect_same_pieces(const struct tern_model *of, const float *input, size_t most)
{
    const size_t size = of->count * sizeof(float);
    const size_t bound = tern_container_bound(&codec, of);
    const size_t piece = tern_container_piece_bound(&codec, of);
    float *whole = malloc(size);
    float *apart = malloc(size);
    uint8_t *expected = malloc(bound);
    struct measured found = {.bytes = malloc(bound)};
    const struct tern_container_sink sink = {&found, malloc(piece), piece, measure};
    size_t written = 0;
    size_t written_apart = 0;
    assert_true(whole != NULL && apart != NULL && expected != NULL && found.bytes != NULL);
    assert_non_null(sink.piece);
    memcpy(whole, input, size);
    memcpy(apart, input, size);
    assert_int_equal(tern_container_encode(&codec, NULL, of, whole, expected, bound, &written),
                     TERN_OK);
    assert_int_equal(tern_container_encode_into(&codec, NULL, of, apart, &sink, &written_apart),
                     TERN_OK);
    assert_int_equal(written_apart, written);
    assert_int_equal(found.len, written);
    assert_memory_equal(found.bytes, expected, written);
    assert_memory_equal(apart, whole, size);
    assert_true(found.most <= most);
    free(whole);
    free(apart);
    free(expected);
    free(found.bytes);
    free(sink.piece);
}

// Values of which a whole piece is zero, or so small that all of them decode to zero, too.
CASE_WITH(test_long_payloads_go_in_pieces, start, NULL)
{
    static const char *const specs[] = {"float32", "float16", "bfloat16", "3lc:s=1.5"};
    static struct tern_model large;
    (void)state;
    assert_int_equal(tern_model_from_spec(&large, "softmax:60001-9"), TERN_OK);
    assert_true(large.segments[0].count > 2 * TERN_CONTAINER_PIECE);
    float *many = malloc(large.count * sizeof *many);
    assert_non_null(many);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        assert_int_equal(tern_codec_parse(specs[i], &codec, NULL), TERN_OK);
        const size_t most = i < 3 ? 1 + 4 * (size_t)TERN_CONTAINER_PIECE : 100000;
        for (int kind = 0; kind < 3; kind++) {
            for (uint32_t k = 0; k < large.count; k++) {
                many[k] = k < TERN_CONTAINER_PIECE + 7 ? 0.0f : (float)(k % 1001) - 500;
                many[k] *= kind == 0 ? 1.0f : kind == 1 ? 1e-39f : 0.0f;
            }
            expect_same_pieces(&large, many, most);
        }
    }
    free(many);
}
#endif

CASE_WITH(test_bound_is_reached_and_kept, start, NULL)
{
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

// Bytes that are looked at piece by piece: each view is a copy of its own, which the next one frees.
struct pieces {
    const uint8_t *data;
    size_t len;
    uint8_t *seen;
    size_t most; // bytes of the longest view
};

static enum tern_result view(void *ctx, size_t offset, size_t n, const uint8_t **data)
{
    struct pieces *pieces = ctx;
    free(pieces->seen);
    pieces->seen = NULL;
    if (offset > pieces->len || n > pieces->len - offset) {
        fail_msg("looks behind the end");
    }
    pieces->seen = malloc(n);
    assert_non_null(pieces->seen);
    memcpy(pieces->seen, pieces->data + offset, n);
    pieces->most = n > pieces->most ? n : pieces->most;
    *data = pieces->seen;
    return TERN_OK;
}

static enum tern_result check_source(const struct tern_model *of, const uint8_t *data,
                                     size_t data_len, float *peak)
{
    struct pieces pieces = {.data = data, .len = data_len};
    const struct tern_container_source source = {&pieces, data_len, view};
    const enum tern_result result = tern_container_source_check(of, &source, peak);
    free(pieces.seen);
    return result;
}

// As container.h has it, bit for bit.
static void expect_same(const struct tern_model *of, const uint8_t *data, size_t data_len,
                        size_t most)
{
    struct pieces pieces = {.data = data, .len = data_len};
    const struct tern_container_source source = {&pieces, data_len, view};
    struct tern_codec_info info;
    float peak = 0;
    float *whole = calloc(of->count, sizeof *whole);
    float *found = calloc(of->count, sizeof *found);
    assert_non_null(whole);
    assert_non_null(found);
    assert_int_equal(tern_container_inspect(of, data, data_len, &info), TERN_OK);
    assert_int_equal(tern_container_source_check(of, &source, &peak), TERN_OK);
    assert_true(peak == info.maximum);
    assert_int_equal(tern_container_decode(of, data, data_len, whole), TERN_OK);
    assert_int_equal(tern_container_source_decode(of, &source, found), TERN_OK);
    assert_memory_equal(whole, found, of->count * sizeof *whole);
    assert_int_equal(tern_container_accumulate(of, data, data_len, 1.0f, whole), TERN_OK);
    assert_int_equal(tern_container_source_add(of, &source, found), TERN_OK);
    assert_memory_equal(whole, found, of->count * sizeof *whole);
    assert_true(pieces.most <= most);
    free(pieces.seen);
    free(whole);
    free(found);
}

CASE_WITH(test_pieces_are_the_whole, start, NULL)
{
    static const char *const specs[] = {
        "float32", "float16", "bfloat16", "3lc:s=1", "density:p=0.1,coder=range", "int8"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        memcpy(values, before, sizeof values);
        assert_int_equal(tern_codec_parse(specs[i], &codec, NULL), TERN_OK);
        assert_int_equal(
            tern_container_encode(&codec, NULL, &model, values, bytes, sizeof bytes, &len),
            TERN_OK);
        expect_same(&model, bytes, len, len);
    }
}

// More values than a piece has, and not a multiple of them.
CASE_WITH(test_long_payloads_are_not_seen_whole, start, NULL)
{
    static const char *const specs[] = {"float32", "float16", "bfloat16"};
    const struct tern_codec *use = &codec;
    static struct tern_model large;
    (void)state;
    assert_int_equal(tern_model_from_spec(&large, "softmax:60001-5"), TERN_OK);
    float *many = calloc(large.count, sizeof *many);
    uint8_t *data = malloc(4 * (size_t)large.count + 64);
    assert_non_null(many);
    assert_non_null(data);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        size_t n = 0;
        float peak = 0;
        for (uint32_t k = 0; k < large.count; k++) {
            many[k] = (float)(k % 1000) / 8 - 60;
        }
        assert_int_equal(tern_codec_parse(specs[i], &codec, NULL), TERN_OK);
        assert_int_equal(
            tern_container_encode(use, NULL, &large, many, data, 4 * (size_t)large.count + 64, &n),
            TERN_OK);
        expect_same(&large, data, n, 4 * (size_t)TERN_CONTAINER_PIECE);
        const size_t last = 4 + (size_t)(i == 0 ? 4 : 2) * 300005 - 1; // of the first payload
        data[last] = data[last - 1] = 0xff;                            // NaN
        assert_int_equal(check_source(&large, data, n, &peak), TERN_ERR_NON_FINITE);
    }
    free(many);
    free(data);
}

// Decodes a copy that ends with its allocation, so that ASan sees an over-read.
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
    float peak = 0;
    assert_int_not_equal(check_source(&model, exact, data_len, &peak), TERN_OK);
    free(exact);
}

CASE_WITH(test_cut_anywhere_is_refused, start, NULL)
{
    for (size_t cut = 0; cut < len; cut++) {
        expect_refused(bytes, cut);
    }
    bytes[len] = 0;
    expect_refused(bytes, len + 1);
}

CASE_WITH(test_lengths_are_checked, start, NULL)
{
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

CASE_WITH(test_damage_in_the_last_segment_changes_nothing, start, NULL)
{
    uint64_t payload = 0;
    size_t length_bytes = 0;
    size_t at = segment_at(2, &payload, &length_bytes);
    bytes[at + length_bytes] = 0x7e; // no such mode
    expect_refused(bytes, len);
}
