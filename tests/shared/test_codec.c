#include "any_codec.h"
#include "check.h"
#include "tests/cases.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct tern_codec float32 = {.id = TERN_CODEC_FLOAT32, .sparsity = 1};
static const struct tern_codec float16 = {.id = TERN_CODEC_FLOAT16, .sparsity = 1};
static const struct tern_codec ternary = {.id = TERN_CODEC_3LC, .sparsity = 1};

// --- Spec strings

CASE(test_specs)
{
    static const struct {
        const char *spec;
        enum tern_codec_id id;
        float sparsity;
        const char *canonical;
    } good[] = {
        {"float32", TERN_CODEC_FLOAT32, 0, "float32"},
        {"float16", TERN_CODEC_FLOAT16, 0, "float16"},
        {"3lc", TERN_CODEC_3LC, 1, "3lc:s=1"},
        {"3lc:s=1", TERN_CODEC_3LC, 1, "3lc:s=1"},
        {"3lc:s=1.0", TERN_CODEC_3LC, 1, "3lc:s=1"},
        {"3lc:s=1.50", TERN_CODEC_3LC, 1.5f, "3lc:s=1.5"},
        {"3lc:s=1.75", TERN_CODEC_3LC, 1.75f, "3lc:s=1.75"},
        {"3lc:s=1.9", TERN_CODEC_3LC, 1.9f, "3lc:s=1.9"},
        {"3lc:s=1.999", TERN_CODEC_3LC, 1.999f, "3lc:s=1.999"},
        {"3lc:s=1.000001", TERN_CODEC_3LC, 1.000001f, "3lc:s=1.000001"},
        {"3lc:s=1.999999", TERN_CODEC_3LC, 1.999999f, "3lc:s=1.999999"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct tern_codec codec;
        char spec[TERN_CODEC_SPEC_MAX];
        assert_int_equal(tern_codec_parse(good[i].spec, &codec, NULL), TERN_OK);
        assert_int_equal(codec.id, good[i].id);
        assert_true(codec.sparsity == good[i].sparsity);
        tern_codec_format(&codec, spec);
        assert_string_equal(spec, good[i].canonical);
    }
}

// What each name alone means, and every key at another value, in any order.
CASE(test_presets_and_canonical_forms)
{
    static const char *const pairs[][2] = {
        {"bfloat16", "bfloat16"},
        {"int8", "int8"},
        {"onebit", "onebit"},
        {"3lc:coder=range", "3lc:s=1,coder=range"},
        {"3lc:coder=zero-run,s=1.250", "3lc:s=1.25"},
        {"density", "density:p=0.05"},
        {"density:coder=gaps", "density:p=0.05,coder=gaps"},
        {"density:coder=auto,p=0.000001", "density:p=0.000001"},
        {"stochastic-ternary", "stochastic-ternary:coder=zero-run"},
        {"stochastic-ternary:coder=packed", "stochastic-ternary:coder=packed"},
        {"sparse", "sparse:p=0.05"},
        {"sparse:coder=bitmap,p=1", "sparse:p=1,coder=bitmap"},
        {"dgc", "dgc:p=0.001"},
        {"dgc:warmup=8,momentum=0,coder=gaps", "dgc:p=0.001,momentum=0,warmup=8,coder=gaps"},
        {"qsgd", "qsgd:levels=7"},
        {"qsgd:coder=elias,norm=l2,bucket=32", "qsgd:levels=7,bucket=32,norm=l2,coder=elias"},
        {"qsgd:levels=007,bucket=0512", "qsgd:levels=7"},
        {"inceptionn", "inceptionn:bound=10"},
        {"inceptionn:variant=literal,bound=4", "inceptionn:bound=4,variant=literal"},
        {"uniform", "uniform:error=0.1"},
        {"uniform:error=0.9", "uniform:error=0.9"},
        {"scalecom", "scalecom:p=0.01"},
        {"scalecom:beta=0.5,coder=gaps", "scalecom:p=0.01,beta=0.5,coder=gaps"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct tern_codec codec;
        char spec[TERN_CODEC_SPEC_MAX];
        assert_int_equal(tern_codec_parse(pairs[i][0], &codec, NULL), TERN_OK);
        tern_codec_format(&codec, spec);
        assert_string_equal(spec, pairs[i][1]);
    }
}

// The canonical form of any codec has room, and means the same codec.
CASE(test_canonical_forms_read_back)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        for (uint32_t corner = 0; corner < 32; corner++) {
            char given[ANY_CODEC_SPEC_MAX];
            char spec[TERN_CODEC_SPEC_MAX];
            struct tern_codec again;
            struct tern_codec codec = corner_codec(entry, corner, given);
            tern_codec_format(&codec, spec);
            assert_true(strlen(spec) + 1 < sizeof spec);
            assert_int_equal(tern_codec_parse(spec, &again, NULL), TERN_OK);
            assert_memory_equal(&codec, &again, sizeof codec);
        }
    }
}

CASE(test_bad_specs_are_pointed_at)
{
    static const struct {
        const char *spec;
        enum tern_result result;
        size_t bad;
    } bad[] = {
        {"", TERN_ERR_UNKNOWN, 0},
        {"float", TERN_ERR_UNKNOWN, 0},
        {"float321", TERN_ERR_UNKNOWN, 0},
        {"3LC", TERN_ERR_UNKNOWN, 0},
        {" 3lc", TERN_ERR_UNKNOWN, 0},
        {"float32:", TERN_ERR_ARGUMENT, 8},
        {"float16:s=1", TERN_ERR_ARGUMENT, 8},
        {"3lc:", TERN_ERR_ARGUMENT, 4},
        {"3lc:S=1", TERN_ERR_ARGUMENT, 4},
        {"3lc:density=1", TERN_ERR_ARGUMENT, 4},
        {"3lc:s=", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=2", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=0.99", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=10", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=1.", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=1,5", TERN_ERR_ARGUMENT, 8},
        {"3lc:s=1,s=1", TERN_ERR_ARGUMENT, 8},
        {"3lc:coder=lzma", TERN_ERR_ARGUMENT, 10},
        {"3lc:s=1.5 ", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=1e0", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=1.0000001", TERN_ERR_ARGUMENT, 6},
        {"3lc:s=nan", TERN_ERR_ARGUMENT, 6},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tern_codec codec = {.id = TERN_CODEC_FLOAT16, .sparsity = 7};
        struct tern_spec_refusal refusal = {.at = NULL};
        assert_int_equal(tern_codec_parse(bad[i].spec, &codec, &refusal), bad[i].result);
        assert_int_equal(refusal.at - bad[i].spec, bad[i].bad);
        assert_true(codec.id == TERN_CODEC_FLOAT16 && codec.sparsity == 7);
    }
}

CASE(test_every_name_parses)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        struct tern_codec codec;
        assert_int_equal(tern_codec_parse(entry->name, &codec, NULL), TERN_OK);
        assert_int_equal(codec.id, entry->id);
    }
}

CASE(test_refusals_name_key_and_range)
{
    static const struct {
        const char *spec;
        const char *sentence;
    } refused[] = {
        {"3lc:s=2", "3lc: s is 1 to 1.999999, not \"2\""},
        {"3lc:s=2,coder=packed", "3lc: s is 1 to 1.999999, not \"2\""},
        {"stochastic-ternary,coder=range", "there is no codec \"stochastic-ternary,coder=range\"; "
                                           "a \":\" stands between a codec and its "
                                           "parameters: \"stochastic-ternary:coder=range\""},
        {"3lc:t=2", "3lc: unknown key \"t=2\"; did you mean \"s\"? It has s, clip, coder"},
        {"float32:s=1", "float32: unknown key \"s=1\"; it has no parameters"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct tern_codec codec;
        struct tern_spec_refusal refusal;
        char sentence[TERN_SPEC_SENTENCE_MAX];
        assert_int_not_equal(tern_codec_parse(refused[i].spec, &codec, &refusal), TERN_OK);
        tern_spec_explain(&refusal, sentence);
        assert_string_equal(sentence, refused[i].sentence);
    }
}

// A value that no parameter of the kind takes.
static const char *value_outside(const struct tern_spec_parameter *parameter, char text[32])
{
    uint32_t above = parameter->most + 1;
    switch (parameter->kind) {
    case TERN_SPEC_NUMBER:
        snprintf(text, 32, "%u.%06u", above / 1000000, above % 1000000);
        return text;
    case TERN_SPEC_WHOLE:
        snprintf(text, 32, "%u", above);
        return text;
    case TERN_SPEC_REAL: // codecs have none
    case TERN_SPEC_CHOICE:
        break;
    }
    return "none";
}

static void expect_refusal(const struct tern_codec_entry *entry,
                           const struct tern_spec_parameter *parameter, const char *value)
{
    char spec[128];
    char expected[TERN_SPEC_SENTENCE_MAX];
    char sentence[TERN_SPEC_SENTENCE_MAX];
    struct tern_codec codec;
    struct tern_spec_refusal refusal;
    snprintf(spec, sizeof spec, "%s:%s=%s", entry->name, parameter->key, value);
    snprintf(expected, sizeof expected, "%s: %s is %s, not \"%s\"", entry->name, parameter->key,
             parameter->range, value);
    assert_int_equal(tern_codec_parse(spec, &codec, &refusal), TERN_ERR_ARGUMENT);
    tern_spec_explain(&refusal, sentence);
    assert_string_equal(sentence, expected);
    assert_true(strlen(parameter->range) > 0 && strlen(parameter->meaning) > 0);
}

CASE(test_every_range_is_kept_and_named)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        for (const struct tern_spec_parameter *p = entry->parameters; p->key != NULL; p++) {
            char text[32];
            expect_refusal(entry, p, value_outside(p, text));
            expect_refusal(entry, p, "");
            expect_refusal(entry, p, "-1");
            if (p->kind != TERN_SPEC_CHOICE && p->least > 0) {
                expect_refusal(entry, p, "0");
            }
        }
    }
}

// --- Encoding

// Encodes n values and expects a failure that changes none.
static void refuse(const struct tern_codec *codec, const float *values, size_t n,
                   enum tern_result expected)
{
    float copy[64];
    float velocity[64];
    uint8_t payload[512];
    size_t written = 99;
    assert_true(n <= 64);
    memcpy(copy, values, n * sizeof *copy);
    memcpy(velocity, values, n * sizeof *copy);
    const struct tern_encode_context context = {.velocity = velocity};
    assert_int_equal(tern_codec_encode(codec, &context, copy, n, payload, sizeof payload, &written),
                     expected);
    assert_same_floats(copy, values, n);
    assert_same_floats(velocity, values, n);
    assert_int_equal(written, 99);
}

static void refuse_at_every_place(const struct tern_codec *codec)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        for (size_t at = 0; at < 40; at++) {
            float values[40];
            for (size_t k = 0; k < 40; k++) {
                values[k] = (float)k;
            }
            values[at] = bad[i];
            refuse(codec, values, 40, TERN_ERR_NON_FINITE);
        }
    }
}

CASE(test_non_finite_values_change_nothing)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        for (uint32_t corner = 0; corner < 32; corner++) {
            char spec[ANY_CODEC_SPEC_MAX];
            struct tern_codec codec = corner_codec(entry, corner, spec);
            refuse_at_every_place(&codec);
        }
    }
}

CASE(test_overflow_changes_nothing)
{
    const float largest[] = {1, FLT_MAX, -2};
    const struct tern_codec over = {.id = TERN_CODEC_3LC, .sparsity = 1.000001f};
    refuse(&over, largest, 3, TERN_ERR_NON_FINITE);
    const float above_half[] = {1, -65520, 2};
    refuse(&float16, above_half, 3, TERN_ERR_NON_FINITE);
}

CASE(test_dense_payloads_fill_their_bound)
{
    const struct tern_codec *codecs[] = {&float32, &float16, &ternary};
    for (size_t c = 0; c < 3; c++) {
        for (size_t n = 1; n < 60; n++) {
            float values[60];
            for (size_t i = 0; i < n; i++) {
                values[i] = i % 2 ? 1.0f : -1.0f; // no zeros: the longest payload
            }
            uint8_t payload[256];
            size_t written = 0;
            assert_int_equal(
                tern_codec_encode(codecs[c], NULL, values, n, payload, sizeof payload, &written),
                TERN_OK);
            assert_int_equal(written, tern_codec_bound(codecs[c], n));
        }
    }
}

enum { BOUND_VALUES = 300, BOUND_BYTES = 4 * BOUND_VALUES + BOUND_VALUES / 4 + 64 };

// Shapes that make some codec's payload long.
static void fill_shape(float *values, size_t n, unsigned shape, struct tern_prng *rng)
{
    for (size_t i = 0; i < n; i++) {
        float sign = tern_prng_u32(rng) & 1 ? 1.0f : -1.0f;
        float large = shape == 1 ? 1e30f : 1 + tern_prng_float(rng);
        values[i] = shape == 2 && tern_prng_below(rng, 8) > 0 ? 0 : sign * large;
        values[i] = shape == 3 ? any_float(rng) * 0x1p-40f : values[i];
    }
}

static void check_bound(const struct tern_codec *codec, const float *input, size_t n)
{
    static uint8_t payload[BOUND_BYTES + 64];
    float values[BOUND_VALUES];
    float velocity[BOUND_VALUES] = {0};
    const struct tern_encode_context context = {.velocity = velocity, .seed = n};
    size_t bound = tern_codec_bound(codec, n);
    size_t written = 0;
    assert_true(bound >= 1 && bound <= tern_codec_bound_any(n));
    memset(payload, 0xa5, sizeof payload);
    memcpy(values, input, n * sizeof *values);
    assert_int_equal(tern_codec_encode(codec, &context, values, n, payload, bound - 1, &written),
                     TERN_ERR_NO_SPACE);
    assert_same_floats(values, input, n);
    assert_int_equal(tern_codec_encode(codec, &context, values, n, payload, bound, &written),
                     TERN_OK);
    assert_in_range(written, 1, bound);
    for (size_t i = bound; i < bound + 64; i++) {
        assert_int_equal(payload[i], 0xa5);
    }
}

CASE(test_no_codec_writes_past_its_bound)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, 0, 0);
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        for (uint32_t corner = 0; corner < 32; corner++) {
            char spec[ANY_CODEC_SPEC_MAX];
            struct tern_codec codec = corner_codec(entry, corner, spec);
            for (unsigned round = 0; round < 80; round++) {
                float input[BOUND_VALUES];
                size_t n = round < 40 ? round : tern_prng_below(&rng, BOUND_VALUES);
                unsigned shape = round % 4;
                // What is too large for a half is refused, not written.
                shape = shape % 2 == 1 && codec.id == TERN_CODEC_FLOAT16 ? 0 : shape;
                fill_shape(input, n, shape, &rng);
                check_bound(&codec, input, n);
            }
        }
    }
}

CASE(test_unknown_codec)
{
    const struct tern_codec unknown = {.id = (enum tern_codec_id)77, .sparsity = 1};
    const float values[] = {1};
    refuse(&unknown, values, 1, TERN_ERR_UNKNOWN);
}

// Spelled out from the paper: 6 values, M = 2, s = 1.5, so m = 3 and m/2 = 1.5.
CASE(test_3lc_by_hand)
{
    const struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = 1.5f};
    float values[] = {2, -1.5f, 1.5000001f, 0, -1.75f, -0.0f};
    uint8_t payload[16];
    size_t written = 0;
    assert_int_equal(tern_codec_encode(&codec, NULL, values, 6, payload, sizeof payload, &written),
                     TERN_OK);
    // Parts of two: (+1 0) (+1 0) (-1 0) (- -) (- -).
    const uint8_t expected[] = {0x10, 0, 0, 0x40, 0x40, 2 * 81 + 2 * 27 + 0 * 9 + 1 * 3 + 1, 121};
    assert_int_equal(written, sizeof expected);
    assert_memory_equal(payload, expected, sizeof expected);
    const float residual[] = {-1, -1.5f, 1.5000001f - 3, 0, 1.25f, -0.0f};
    assert_same_floats(values, residual, 6);
}

CASE(test_runs_make_a_large_zero_tensor_small)
{
    static float values[70000];
    static uint8_t payload[20000];
    size_t written = 0;
    values[35000] = 1;
    assert_int_equal(
        tern_codec_encode(&ternary, NULL, values, 70000, payload, sizeof payload, &written),
        TERN_OK);
    assert_int_equal(payload[0], 0x10);
    assert_true(written <= 5 + 1000 + 2); // 8/70 bits per value, and one value
    values[35000] = 0;
    assert_int_equal(
        tern_codec_encode(&ternary, NULL, values, 70000, payload, sizeof payload, &written),
        TERN_OK);
    assert_int_equal(written, 1);
}

// --- Decoding

CASE(test_accumulate_rounds_once)
{
    const float input[] = {0.1f, -0.1f, 0, 0.01f};
    const struct tern_codec *codecs[] = {&float32, &float16, &ternary};
    const float weights[] = {1, -1, 0.3f, 1e-20f, 3e20f, 0};
    for (size_t c = 0; c < 3; c++) {
        float values[4], decoded[4];
        uint8_t payload[32];
        size_t written = 0;
        memcpy(values, input, sizeof values);
        assert_int_equal(
            tern_codec_encode(codecs[c], NULL, values, 4, payload, sizeof payload, &written),
            TERN_OK);
        assert_int_equal(tern_codec_decode(payload, written, decoded, 4), TERN_OK);
        for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++) {
            float acc[] = {1, 1e-3f, -7, 1e7f};
            float expected[4];
            for (size_t i = 0; i < 4; i++) {
                volatile float product = weights[w] * decoded[i];
                expected[i] = acc[i] + product;
            }
            assert_int_equal(tern_codec_accumulate(payload, written, weights[w], acc, 4), TERN_OK);
            assert_same_floats(acc, expected, 4);
        }
    }
}

CASE(test_zeros_leave_negative_zero_alone)
{
    enum { N = 3000 };
    static float values[N], acc[N];
    static uint8_t payload[N];
    for (size_t step = 1; step < 2000; step = step * 3 + 1) {
        size_t written = 0;
        for (size_t i = 0; i < N; i++) {
            values[i] = i % step == step / 2 ? 1.0f : 0.0f;
            acc[i] = -0.0f;
        }
        assert_int_equal(
            tern_codec_encode(&ternary, NULL, values, N, payload, sizeof payload, &written),
            TERN_OK);
        assert_int_equal(tern_codec_accumulate(payload, written, 1, acc, N), TERN_OK);
        for (size_t i = 0; i < N; i++) {
            float expected = i % step == step / 2 ? 1.0f : -0.0f;
            assert_int_equal(bits_of(acc[i]), bits_of(expected));
        }
    }
}

CASE(test_inspect)
{
    float values[100] = {0};
    uint8_t payload[512];
    size_t written = 0;
    struct tern_codec_info info;
    values[3] = 2;
    values[50] = -2;
    values[60] = 0.5f;
    float copy[100];
    memcpy(copy, values, sizeof copy);
    assert_int_equal(
        tern_codec_encode(&ternary, NULL, copy, 100, payload, sizeof payload, &written), TERN_OK);
    assert_int_equal(tern_codec_inspect(payload, written, 100, &info), TERN_OK);
    assert_true(info.ternary);
    assert_string_equal(info.mode, "ternary-zero-run");
    assert_true(info.scale == 2 && info.maximum == 2 && info.sum_square == 8);
    assert_int_equal(info.nonzero, 2);
    assert_int_equal(info.runs, 3); // parts of 20: zeros 0-2, 4-9 and 11-19

    memcpy(copy, values, sizeof copy);
    assert_int_equal(
        tern_codec_encode(&float32, NULL, copy, 100, payload, sizeof payload, &written), TERN_OK);
    assert_int_equal(tern_codec_inspect(payload, written, 100, &info), TERN_OK);
    assert_string_equal(info.mode, "float32");
    assert_true(info.scale == 0 && info.maximum == 2 && info.sum_square == 8.25);
    assert_int_equal(info.nonzero, 3);

    memcpy(copy, values, sizeof copy);
    assert_int_equal(
        tern_codec_encode(&float16, NULL, copy, 100, payload, sizeof payload, &written), TERN_OK);
    assert_int_equal(tern_codec_inspect(payload, written, 100, &info), TERN_OK);
    assert_true(!info.ternary && info.maximum == 2 && info.sum_square == 8.25);
    assert_int_equal(info.nonzero, 3);
}
