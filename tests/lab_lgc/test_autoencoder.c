// Encoding and decoding: what is made is what a plain autoencoder makes, to the bit the same everywhere; sizes, what is
// no number, and weights on their way.
#include "codec/codec.h"
#include "lab_lgc/plain_autoencoder.h"
#include "shared/check.h"
#include "tests/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RING TERN_AUTOENCODER_RING_ALLREDUCE
#define SERVER TERN_AUTOENCODER_PARAMETER_SERVER

// An autoencoder with its weights, and one node's values.
struct setup {
    struct tern_autoencoder autoencoder;
    size_t length;
    float weights[MOST_WEIGHTS];
    struct random_round random;
    float scale;
    void *workspace;
    size_t size;
};

static void make(struct setup *setup, struct tern_autoencoder_settings settings, size_t length)
{
    assert_int_equal(tern_autoencoder_init(&setup->autoencoder, &settings), TERN_OK);
    assert_true(setup->autoencoder.count <= MOST_WEIGHTS);
    setup->length = length;
    make_weights(&setup->autoencoder, 7, setup->weights);
    make_round(&setup->random, settings.pattern, 1, length, 40);
    setup->scale = tern_autoencoder_scale(setup->random.value[0], length);
    setup->size = tern_autoencoder_workspace(&setup->autoencoder, length);
    setup->workspace = malloc(setup->size);
    assert_non_null(setup->workspace);
    memset(setup->workspace, 0xFF, setup->size); // NaN wherever nothing is written
}

static enum tern_result encode(struct setup *setup, float *code)
{
    return tern_autoencoder_encode(&setup->autoencoder, setup->weights, setup->random.value[0],
                                   setup->length, setup->scale, setup->workspace, setup->size,
                                   code);
}

static enum tern_result decode(struct setup *setup, const float *code, float *values)
{
    const bool ring = setup->autoencoder.settings.pattern == RING;
    return tern_autoencoder_decode(&setup->autoencoder,
                                   setup->weights + setup->autoencoder.encoder_count, code,
                                   ring ? NULL : setup->random.innovation[0], setup->length,
                                   setup->scale, setup->workspace, setup->size, values);
}

static void to_double(const float *from, double factor, size_t count, double *to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (double)from[i] / factor;
    }
}

static void assert_near(const float *actual, const double *expected, double factor, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fabs((double)actual[i] - factor * expected[i]) > 1e-5 * factor) {
            fail_msg("value %zu of %zu is %g, not %g", i, count, (double)actual[i],
                     factor * expected[i]);
        }
    }
}

static void check_against_plain(struct tern_autoencoder_settings settings, size_t length)
{
    static struct setup setup;
    static double weights[MOST_WEIGHTS], values[MOST_VALUES], code[MOST_CODE], out[MOST_VALUES];
    float fast_code[MOST_CODE], fast_values[MOST_VALUES];
    make(&setup, settings, length);
    const struct tern_autoencoder *autoencoder = &setup.autoencoder;
    const size_t count = tern_autoencoder_code_length(autoencoder, length);
    assert_int_equal(count, (length + 15) / 16 * settings.channels);
    to_double(setup.weights, 1, autoencoder->count, weights);
    to_double(setup.random.value[0], (double)setup.scale, length, values);
    plain_encode(autoencoder, weights, values, length, code);
    assert_int_equal(encode(&setup, fast_code), TERN_OK);
    assert_near(fast_code, code, 1, count);
    to_double(setup.random.innovation[0], (double)setup.scale, length, values);
    to_double(fast_code, 1, count, code);
    plain_decode(autoencoder, weights + autoencoder->encoder_count, code,
                 settings.pattern == RING ? NULL : values, length, out);
    assert_int_equal(decode(&setup, fast_code, fast_values), TERN_OK);
    assert_near(fast_values, out, (double)setup.scale, length);
    free(setup.workspace);
}

CASE(codes_and_values_are_those_of_a_plain_autoencoder)
{
    check_against_plain((struct tern_autoencoder_settings){RING, 4, 3, 1}, 100);
    check_against_plain((struct tern_autoencoder_settings){RING, 10, 4, 1}, 48);
    check_against_plain((struct tern_autoencoder_settings){SERVER, 6, 2, 1}, 16);
    check_against_plain((struct tern_autoencoder_settings){SERVER, 4, 6, 2}, 257);
    check_against_plain((struct tern_autoencoder_settings){SERVER, 2, 1, 1}, 1);
}

// The paper's tables, and its network with the innovation: 172,996 and 43,734 weights.
CASE(the_paper_s_network_has_its_layers)
{
    struct tern_autoencoder a;
    assert_int_equal(
        tern_autoencoder_init(&a, &(struct tern_autoencoder_settings){SERVER, 64, 4, 2}), TERN_OK);
    const uint32_t encoder[][3] = {
        {1, 64, 2}, {64, 128, 2}, {128, 256, 2}, {256, 64, 2}, {64, 4, 1}};
    const uint32_t decoder[][3] = {{4, 4, 1},    {4, 32, 2},   {32, 64, 2},
                                   {64, 128, 2}, {128, 32, 2}, {32, 1, 1}};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(a.encoder[i].inputs, encoder[i][0]);
        assert_int_equal(a.encoder[i].outputs, encoder[i][1]);
        assert_int_equal(a.encoder[i].stride, encoder[i][2]);
        assert_int_equal(a.encoder[i].width, i < 4 ? 3 : 1);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(a.decoder[i].inputs, decoder[i][0]);
        assert_int_equal(a.decoder[i].outputs, decoder[i][1]);
        assert_int_equal(a.decoder[i].stride, decoder[i][2]);
        assert_int_equal(a.decoder[i].width, i < 5 ? 3 : 1);
    }
    assert_int_equal(a.encoder_count, 172996);
    assert_int_equal(a.decoder_count, 43734);
    assert_int_equal(a.count, 172996 + 2 * 43734);
    assert_int_equal(tern_autoencoder_code_length(&a, 1600), 400);
}

// The figures are those of every build and platform; tests/small runs this on the plain loops.
CASE(bits_are_the_same_everywhere)
{
    static struct setup setup;
    float code[MOST_CODE], values[MOST_VALUES];
    make(&setup, (struct tern_autoencoder_settings){SERVER, 12, 4, 1}, 300);
    assert_int_equal(checksum_of_floats(setup.weights, setup.autoencoder.count), 0x3bf3aa8cu);
    assert_int_equal(encode(&setup, code), TERN_OK);
    assert_int_equal(checksum_of_floats(code, 76), 0x8781bdfdu);
    assert_int_equal(decode(&setup, code, values), TERN_OK);
    assert_int_equal(checksum_of_floats(values, 300), 0xf6042a41u);
    free(setup.workspace);
}

// Neither what was in the workspace nor where it starts matters, and the encoder's weights are enough to encode.
CASE(only_weights_and_values_matter)
{
    static struct setup setup;
    float code[MOST_CODE], again[MOST_CODE], values[MOST_VALUES], same[MOST_VALUES];
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 90);
    assert_int_equal(encode(&setup, code), TERN_OK);
    assert_int_equal(decode(&setup, code, values), TERN_OK);
    char *odd = malloc(setup.size + 3);
    assert_non_null(odd);
    memset(odd, 0x7F, setup.size + 3);
    struct setup other = setup;
    other.workspace = odd + 3;
    const size_t decoder = setup.autoencoder.encoder_count;
    memset(other.weights + decoder, 0xFF, sizeof other.weights - decoder * sizeof(float));
    assert_int_equal(encode(&other, again), TERN_OK);
    assert_same_floats(again, code, 18);
    memcpy(other.weights, setup.weights, sizeof setup.weights);
    memset(other.weights, 0xFF, decoder * sizeof(float));
    assert_int_equal(decode(&other, code, same), TERN_OK);
    assert_same_floats(same, values, 90);
    // The innovation may be where the values go.
    assert_int_equal(decode(&setup, code, setup.random.innovation[0]), TERN_OK);
    assert_same_floats(setup.random.innovation[0], values, 90);
    free(odd);
    free(setup.workspace);
}

CASE(a_length_is_padded_with_zeros)
{
    static struct setup setup;
    float code[MOST_CODE], padded[MOST_CODE];
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 96);
    setup.length = 81; // the sixth position has one value
    memset(setup.random.value[0] + 81, 0, 15 * sizeof(float));
    assert_int_equal(encode(&setup, code), TERN_OK);
    setup.length = 96;
    assert_int_equal(encode(&setup, padded), TERN_OK);
    assert_same_floats(code, padded, 18);
    assert_int_equal(tern_autoencoder_code_length(&setup.autoencoder, 80), 15);
    assert_int_equal(tern_autoencoder_code_length(&setup.autoencoder, 81), 18);
    free(setup.workspace);
}

CASE(the_scale_is_the_root_mean_square)
{
    const float values[] = {3, -4, 0, 0};
    assert_true(tern_autoencoder_scale(values, 2) == sqrtf(12.5f));
    assert_true(tern_autoencoder_scale(values, 4) == 2.5f);
    assert_true(tern_autoencoder_scale(values + 2, 2) == 0);
    const float large[] = {3e38f, -3e38f};
    assert_true(tern_autoencoder_scale(large, 2) == 3e38f);
    const float bad[] = {1, NAN}, worse[] = {INFINITY, 1};
    assert_true(isnan(tern_autoencoder_scale(bad, 2)));
    assert_true(isnan(tern_autoencoder_scale(worse, 2)));
}

// Values and scale in another unit: the same code, and what is decoded is in that unit.
CASE(a_power_of_two_as_unit_changes_no_bit_of_a_code)
{
    static struct setup setup;
    float code[MOST_CODE], other[MOST_CODE], values[MOST_VALUES], larger[MOST_VALUES];
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 60);
    assert_int_equal(encode(&setup, code), TERN_OK);
    assert_int_equal(decode(&setup, code, values), TERN_OK);
    for (size_t i = 0; i < 60; i++) {
        setup.random.value[0][i] *= 1024;
        setup.random.innovation[0][i] *= 1024;
        values[i] *= 1024;
    }
    setup.scale = tern_autoencoder_scale(setup.random.value[0], 60);
    assert_int_equal(encode(&setup, other), TERN_OK);
    assert_same_floats(other, code, 12);
    assert_int_equal(decode(&setup, code, larger), TERN_OK);
    assert_same_floats(larger, values, 60);
    free(setup.workspace);
}

CASE(values_of_scale_0_are_zeros)
{
    static struct setup setup;
    float code[MOST_CODE], zeros[MOST_CODE], values[MOST_VALUES];
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 60);
    setup.scale = 0;
    assert_int_equal(encode(&setup, code), TERN_OK);
    assert_int_equal(decode(&setup, code, values), TERN_OK);
    for (size_t i = 0; i < 60; i++) {
        assert_true(values[i] == 0);
    }
    memset(setup.random.value[0], 0, sizeof setup.random.value[0]);
    setup.scale = 1;
    assert_int_equal(encode(&setup, zeros), TERN_OK);
    assert_same_floats(zeros, code, 12);
    free(setup.workspace);
}

static void expect_init(enum tern_result expected, struct tern_autoencoder_settings settings)
{
    struct tern_autoencoder autoencoder, before;
    memset(&autoencoder, 0x55, sizeof autoencoder);
    before = autoencoder;
    assert_int_equal(tern_autoencoder_init(&autoencoder, &settings), expected);
    if (expected != TERN_OK) {
        assert_memory_equal(&autoencoder, &before, sizeof before);
    }
}

CASE(settings_outside_their_range_are_refused)
{
    expect_init(TERN_OK, (struct tern_autoencoder_settings){SERVER, 256, 64, 1024});
    expect_init(TERN_OK, (struct tern_autoencoder_settings){RING, 2, 1, 1});
    const struct tern_autoencoder_settings bad[] = {
        {0, 4, 4, 1},         {3, 4, 4, 1},      {SERVER, 0, 4, 1},  {SERVER, 3, 4, 1},
        {SERVER, 258, 4, 1},  {SERVER, 4, 0, 1}, {SERVER, 4, 65, 1}, {SERVER, 4, 4, 0},
        {SERVER, 4, 4, 1025}, {RING, 4, 4, 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_init(TERN_ERR_ARGUMENT, bad[i]);
    }
}

CASE(wrong_sizes_are_refused)
{
    static struct setup setup;
    float code[MOST_CODE] = {9}, values[MOST_VALUES] = {9};
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 60);
    setup.size--;
    assert_int_equal(encode(&setup, code), TERN_ERR_NO_SPACE);
    assert_int_equal(decode(&setup, code, values), TERN_ERR_NO_SPACE);
    setup.length = 0;
    assert_int_equal(encode(&setup, code), TERN_ERR_ARGUMENT);
    assert_int_equal(decode(&setup, code, values), TERN_ERR_ARGUMENT);
    setup.length = (size_t)TERN_AUTOENCODER_MAX_LENGTH + 1;
    assert_int_equal(encode(&setup, code), TERN_ERR_TOO_LARGE);
    assert_int_equal(decode(&setup, code, values), TERN_ERR_TOO_LARGE);
    assert_int_equal(tern_autoencoder_workspace(&setup.autoencoder, setup.length), 0);
    assert_int_equal(tern_autoencoder_workspace(&setup.autoencoder, 0), 0);
    assert_int_equal(tern_autoencoder_code_length(&setup.autoencoder, setup.length), 0);
    setup.length = 60;
    setup.size++;
    assert_int_equal(tern_autoencoder_decode(&setup.autoencoder, setup.weights, code, NULL, 60, 1,
                                             setup.workspace, setup.size, values),
                     TERN_ERR_ARGUMENT);
    setup.autoencoder.settings.pattern = RING;
    assert_int_equal(tern_autoencoder_decode(&setup.autoencoder, setup.weights, code,
                                             setup.random.innovation[0], 60, 1, setup.workspace,
                                             setup.size, values),
                     TERN_ERR_ARGUMENT);
    assert_true(code[0] == 9 && values[0] == 9);
    free(setup.workspace);
}

CASE(what_is_no_number_is_refused)
{
    static struct setup setup;
    float code[MOST_CODE] = {9}, values[MOST_VALUES] = {9};
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 60);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const float kept_scale = setup.scale;
    for (size_t i = 0; i < 3; i++) {
        setup.scale = bad[i];
        assert_int_equal(encode(&setup, code), TERN_ERR_NON_FINITE);
        assert_int_equal(decode(&setup, code, values), TERN_ERR_NON_FINITE);
        setup.scale = kept_scale;
        float *at[] = {&setup.random.value[0][59], &setup.random.innovation[0][59], &code[11]};
        for (size_t k = 0; k < 3; k++) {
            const float kept = *at[k];
            *at[k] = bad[i];
            if (k == 0) {
                assert_int_equal(encode(&setup, code), TERN_ERR_NON_FINITE);
            } else {
                assert_int_equal(decode(&setup, code, values), TERN_ERR_NON_FINITE);
            }
            setup.scale = 0; // by which it would count as 0
            if (k == 0) {
                assert_int_equal(encode(&setup, code), TERN_ERR_NON_FINITE);
            } else {
                assert_int_equal(decode(&setup, code, values), TERN_ERR_NON_FINITE);
            }
            setup.scale = kept_scale;
            *at[k] = kept;
        }
    }
    setup.scale = -1;
    assert_int_equal(encode(&setup, code), TERN_ERR_ARGUMENT);
    assert_int_equal(decode(&setup, code, values), TERN_ERR_ARGUMENT);
    // Finite, but what is made of them is not.
    setup.scale = 1e-44f;
    setup.random.value[0][3] = 1e30f;
    assert_int_equal(encode(&setup, code), TERN_ERR_NON_FINITE);
    setup.scale = 3e38f;
    code[1] = 100;
    assert_int_equal(decode(&setup, code, values), TERN_ERR_NON_FINITE);
    assert_true(code[0] == 9 && values[0] == 9);
    free(setup.workspace);
}

CASE(initial_weights_are_he_s_and_of_the_seed)
{
    static float weights[MOST_WEIGHTS], other[MOST_WEIGHTS];
    struct tern_autoencoder a;
    assert_int_equal(
        tern_autoencoder_init(&a, &(struct tern_autoencoder_settings){SERVER, 8, 4, 2}), TERN_OK);
    tern_autoencoder_init_weights(&a, 1, weights);
    tern_autoencoder_init_weights(&a, 2, other);
    // The encoder's third layer: 3 * 16 inputs, 32 outputs; 1,536 draws up to sqrt(6 / 48).
    const float *third = weights + a.encoder[2].offset;
    float largest = 0;
    for (size_t i = 0; i < 1536; i++) {
        largest = fabsf(third[i]) > largest ? fabsf(third[i]) : largest;
    }
    assert_true(largest <= sqrtf(0.125f) && largest > 0.99f * sqrtf(0.125f));
    for (size_t i = 0; i < 32; i++) {
        assert_true(third[1536 + i] == 0);
    }
    const float *first = weights + a.encoder_count, *second = first + a.decoder_count;
    assert_true(memcmp(first, second, 12 * sizeof(float)) != 0);
    assert_true(memcmp(weights, other, 12 * sizeof(float)) != 0);
    assert_true(first[a.decoder_count - 1] == 1 && second[a.decoder_count - 1] == 1);
}

CASE(weights_pass_through_the_codec_unchanged)
{
    static struct setup setup;
    static float sent[MOST_WEIGHTS], received[MOST_WEIGHTS];
    struct tern_codec codec;
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 60);
    const uint32_t count = setup.autoencoder.encoder_count;
    memcpy(sent, setup.weights, count * sizeof(float));
    assert_int_equal(tern_codec_parse("float32", &codec, NULL), TERN_OK);
    const size_t bound = tern_codec_bound(&codec, count);
    uint8_t *payload = malloc(bound);
    size_t written = 0;
    assert_non_null(payload);
    assert_int_equal(tern_codec_encode(&codec, NULL, sent, count, payload, bound, &written),
                     TERN_OK);
    assert_int_equal(written, 1 + 4 * count);
    assert_int_equal(tern_codec_decode(payload, written, received, count), TERN_OK);
    assert_same_floats(received, setup.weights, count);
    assert_int_equal(tern_autoencoder_check_weights(received, count, count), TERN_OK);
    assert_int_equal(tern_autoencoder_check_weights(received, count - 1, count),
                     TERN_ERR_MODEL_MISMATCH);
    received[count - 1] = NAN;
    assert_int_equal(tern_autoencoder_check_weights(received, count, count), TERN_ERR_NON_FINITE);
    free(payload);
    free(setup.workspace);
}
