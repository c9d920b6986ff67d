// QSGD: levels by the book, both coders, randomness, and where its error may be fed back.
#include "check.h"
#include "round_trip.h"

#include "codec/coders/bits.h"
#include "codec/kernels/kernels.h"
#include "codec/plan.h"
#include "tests/cases.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static float values[TRIP_MOST];
static const struct tern_encode_context first = {.seed = 77, .round = 1, .client = 2, .segment = 3};

static void fill_normal(struct tern_prng *rng, size_t n, float deviation)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = normal_float(rng) * deviation;
    }
}

// The draw of a value, found by stepping through its stream from a block's start.
static float uniform_of(const struct tern_encode_context *context, size_t index)
{
    struct tern_prng rng;
    tern_prng_init(&rng, context->seed, TERN_PRNG_CODEC, context->round, context->client);
    tern_prng_seek(&rng, context->segment * ((uint64_t)1 << 34) + index / 4 * 4);
    float u = 0;
    for (size_t i = 0; i <= index % 4; i++) {
        u = tern_prng_float(&rng);
    }
    return u;
}

// --- Elias omega

// The code as text, from its definition.
static void omega(uint32_t number, char text[64])
{
    memcpy(text, "0", 2);
    while (number > 1) {
        unsigned digits = tern_bits_log2(number) + 1;
        memmove(text + digits, text, strlen(text) + 1);
        for (unsigned i = 0; i < digits; i++) {
            text[i] = number >> (digits - 1 - i) & 1 ? '1' : '0';
        }
        number = digits - 1;
    }
}

static void check_elias(uint32_t number)
{
    char text[64];
    uint8_t bytes[16] = {0};
    omega(number, text);
    struct tern_bit_writer writer = {.at = bytes};
    tern_bits_put(&writer, 5, 3);
    tern_elias_put(&writer, number);
    size_t len = (size_t)(tern_bits_finish(&writer) - bytes);
    assert_int_equal(tern_elias_length(number), strlen(text));
    for (size_t i = 0; text[i] != '\0'; i++) {
        assert_int_equal(bytes[(i + 3) / 8] >> (i + 3) % 8 & 1, text[i] - '0');
    }
    struct tern_bit_reader reader = {.src = bytes, .len = len};
    assert_int_equal(tern_bits_get(&reader, 3), 5);
    assert_int_equal(tern_elias_get(&reader), number);
    assert_true(tern_bits_end(&reader));
}

CASE(test_elias_codes)
{
    static const struct {
        uint32_t number;
        const char *code;
    } known[] = {{1, "0"},      {2, "100"},     {3, "110"},
                 {4, "101000"}, {8, "1110000"}, {16, "10100100000"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[64];
        omega(known[i].number, text);
        assert_string_equal(text, known[i].code);
    }
    for (uint32_t number = 1; number < 70000; number++) {
        check_elias(number);
    }
    for (unsigned bit = 17; bit < 29; bit++) {
        check_elias(1u << bit);
        check_elias((2u << bit) - 1);
    }
    // 2^29: "10" "100" "11101", a group of 30 digits, "0".
    const uint8_t too_large[] = {0xe5, 0x06, 0, 0, 0, 0};
    struct tern_bit_reader of_too_large = {.src = too_large, .len = sizeof too_large};
    assert_int_equal(tern_elias_get(&of_too_large), 0);
    // Groups that say how long the next one is, without end.
    const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct tern_bit_reader reader = {.src = endless, .len = sizeof endless};
    assert_int_equal(tern_elias_get(&reader), 0);
}

// --- By hand

// Values that are exactly at a level are not random.
CASE(test_dense_by_hand)
{
    const float input[] = {7, -7, 0, -3, 1, -0.0f, 2};
    const uint8_t expected[] = {0x40, 7, 0, 0, 0, 0xe0, 0x40, 0xf7, 0xb0, 0x01, 0x02};
    round_trip("qsgd", &first, input, 7);
    assert_int_equal(trip.len, sizeof expected);
    assert_memory_equal(trip.payload, expected, sizeof expected);
    assert_true(trip.decoded[3] == 7 * (3.0f / 7) * -1);
}

CASE(test_elias_by_hand)
{
    const float input[] = {0, 0, 4, -1, 0, 2};
    // Distance 3, plus, 4: 110 0 101000; distance 1, minus, 1: 0 1 0; distance 2, plus, 2:
    // 100 0 100. The first bit is the lowest: 01010011 00101000 0010
    const uint8_t expected[] = {0x41, 4, 0, 0, 0, 0x80, 0x40, 3, 0x53, 0x28, 0x02};
    round_trip("qsgd:levels=4,coder=elias", &first, input, 6);
    assert_int_equal(trip.len, sizeof expected);
    assert_memory_equal(trip.payload, expected, sizeof expected);
    assert_true(trip.decoded[2] == 4 && trip.decoded[3] == -1 && trip.decoded[5] == 2);
}

CASE(test_buckets_have_their_own_scales)
{
    for (size_t i = 0; i < 100; i++) {
        values[i] = i < 32 ? 1 : i < 64 ? -1e-3f : i < 96 ? 0 : 1e6f;
    }
    round_trip("qsgd:levels=1,bucket=32", &first, values, 100);
    assert_same_floats(trip.decoded, values, 100);
    assert_int_equal(trip.len, 1 + 1 + 1 + 4 * 4 + 25);
    round_trip("qsgd:levels=1,bucket=32,coder=elias", &first, values, 100);
    assert_same_floats(trip.decoded, values, 100);
    // As many values as a bucket takes, and more: one bucket needs no size.
    round_trip("qsgd:levels=1,bucket=100", &first, values, 100);
    assert_int_equal(trip.payload[2], 0);
    round_trip("qsgd:levels=1,bucket=99", &first, values, 100);
    assert_int_equal(trip.payload[2], 99);
}

// Levels, scales and draws by the words of the format.
static void check_by_the_book(size_t n, unsigned levels, size_t bucket, const char *norm)
{
    char spec[64];
    snprintf(spec, sizeof spec, "qsgd:levels=%u,bucket=%zu,norm=%s", levels, bucket, norm);
    round_trip(spec, &first, values, n);
    for (size_t start = 0; start < n; start += bucket) {
        size_t end = start + bucket < n ? start + bucket : n;
        double lanes[8] = {0};
        float scale = 0;
        for (size_t i = start; i < end; i++) {
            scale = fmaxf(scale, fabsf(values[i]));
            lanes[(i - start) % 8] += (double)values[i] * (double)values[i];
        }
        double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                     ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        assert_true(tern_kernel_sum_square(values + start, end - start) == sum);
        if (strcmp(norm, "l2") == 0) {
            scale = (float)sqrt(sum);
        }
        for (size_t i = start; i < end && scale > 0; i++) {
            volatile float share = fabsf(values[i]) / scale;
            volatile float place = share * (float)levels;
            float level = floorf(place);
            level += uniform_of(&first, i) < place - level;
            share = level / (float)levels;
            float value = scale * share;
            assert_true(trip.decoded[i] == (values[i] < 0 ? -value : value));
        }
    }
}

CASE(test_by_the_book)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 21, TERN_PRNG_TEST, 0, 0);
    for (size_t n = 1; n < 3000; n += 1 + n / 6) {
        fill_normal(&rng, n, ldexpf(1, (int)tern_prng_below(&rng, 220) - 110));
        // Values of different scales round the sums of squares.
        for (size_t i = 0; i < n; i += 3) {
            values[i] = ldexpf(values[i], -(int)tern_prng_below(&rng, 12));
        }
        unsigned levels = 1 + tern_prng_below(&rng, n % 2 ? 32767 : 20);
        size_t bucket = 32 + tern_prng_below(&rng, 600);
        check_by_the_book(n, levels, bucket, "max");
        check_by_the_book(n, levels, bucket, "l2");
    }
}

// --- Both coders, all sizes and values

CASE(test_coders_say_the_same)
{
    static float dense[TRIP_MOST];
    static const char *const rest[] = {"levels=1",
                                       "levels=7",
                                       "levels=300,bucket=40",
                                       "levels=32767,norm=l2,bucket=32",
                                       "levels=15,bucket=268435456,norm=l2",
                                       "levels=8,bucket=64"};
    struct tern_prng rng;
    tern_prng_init(&rng, 22, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        for (size_t n = 0; n < 3000; n += 1 + n / 8) {
            char spec[80];
            fill_normal(&rng, n, ldexpf(1, (int)tern_prng_below(&rng, 250) - 145));
            values[n / 2] = -0.0f;
            snprintf(spec, sizeof spec, "qsgd:%s", rest[i]);
            round_trip(spec, &first, values, n);
            memcpy(dense, trip.decoded, n * sizeof *dense);
            snprintf(spec, sizeof spec, "qsgd:%s,coder=elias", rest[i]);
            round_trip(spec, &first, values, n);
            assert_same_floats(trip.decoded, dense, n);
        }
    }
}

CASE(test_limits)
{
    static const char *const specs[] = {"qsgd", "qsgd:coder=elias", "qsgd:norm=l2,levels=32767",
                                        "qsgd:norm=l2,levels=1,coder=elias"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        const float smallest[] = {0x1p-149f, -0x1p-149f, 0, 0x1p-149f, 0x1p-149f};
        round_trip(specs[i], &first, smallest, 1);
        round_trip(specs[i], &first, smallest, 5);
        const float zeros[] = {0, -0.0f, 0};
        round_trip(specs[i], &first, zeros, 3);
        assert_int_equal(trip.len, 1);
        for (size_t k = 0; k < 1000; k++) {
            values[k] = k % 2 ? 0.25f : -0.25f;
        }
        round_trip(specs[i], &first, values, 1000);
    }
    const float large[] = {FLT_MAX, -FLT_MAX, 0x1p100f};
    round_trip("qsgd", &first, large, 3);
    assert_true(trip.decoded[0] == FLT_MAX && trip.decoded[1] == -FLT_MAX);
    refuse_values("qsgd:norm=l2", large, 3, TERN_ERR_NON_FINITE);
    const float too_large[] = {0x1p114f};
    refuse_values("qsgd:norm=l2", too_large, 1, TERN_ERR_NON_FINITE);
    const float allowed[] = {0x1.fffffep113f, -0x1.fffffep113f};
    round_trip("qsgd:norm=l2", &first, allowed, 2);
}

// The most bits for every value: as many levels as there are, each of them the highest.
CASE(test_longest_payloads_fit)
{
    for (size_t n = 1; n < 600; n++) {
        for (size_t i = 0; i < n; i++) {
            values[i] = 1;
        }
        round_trip("qsgd:levels=32767,bucket=32", &first, values, n);
        round_trip("qsgd:levels=32767,bucket=32,coder=elias", &first, values, n);
    }
}

// --- Randomness

CASE(test_the_stream_is_named)
{
    enum { N = 2000 };
    struct tern_prng rng;
    tern_prng_init(&rng, 23, TERN_PRNG_TEST, 0, 0);
    fill_normal(&rng, N, 1);
    static float one[N];
    round_trip("qsgd", &first, values, N);
    memcpy(one, trip.decoded, sizeof one);
    round_trip("qsgd", &first, values, N);
    assert_same_floats(trip.decoded, one, N);
    struct tern_encode_context others[4] = {first, first, first, first};
    others[0].seed++;
    others[1].round++;
    others[2].client++;
    others[3].segment++;
    for (size_t i = 0; i < 4; i++) {
        round_trip("qsgd", &others[i], values, N);
        assert_memory_not_equal(trip.decoded, one, sizeof one);
    }
}

// The mean over rounds comes near the value, as near as the spread of a level allows.
static void check_unbiased(const char *spec, float step)
{
    enum { N = 200, ROUNDS = 4000 };
    struct tern_prng rng;
    static double sum[N];
    double whole = 0;
    tern_prng_init(&rng, 24, TERN_PRNG_TEST, 0, 0);
    fill_normal(&rng, N, 1);
    memset(sum, 0, sizeof sum);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct tern_encode_context context = {.seed = 5, .round = round};
        round_trip(spec, &context, values, N);
        for (size_t i = 0; i < N; i++) {
            sum[i] += (double)trip.decoded[i];
        }
    }
    double deviation = (double)step / 2 / sqrt(ROUNDS); // of a mean, at most
    for (size_t i = 0; i < N; i++) {
        double error = sum[i] / ROUNDS - (double)values[i];
        assert_true(fabs(error) < 5 * deviation);
        whole += error;
    }
    assert_true(fabs(whole) < 5 * deviation * sqrt(N));
}

CASE(test_unbiased)
{
    check_unbiased("qsgd", 3.0f / 7);
    check_unbiased("qsgd:levels=1,coder=elias", 3.5f);
    check_unbiased("qsgd:levels=4,norm=l2,bucket=64", 10.0f / 4);
}

// --- What it costs

// Corollary 3.3 of the paper: with s = sqrt(n) levels and the L2 norm, at most 2.8 n + 32 bits are
// expected.
CASE(test_as_many_levels_as_the_root_cost_less_than_three_bits)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 25, TERN_PRNG_TEST, 0, 0);
    for (unsigned root = 32; root <= 256; root *= 2) {
        size_t n = (size_t)root * root;
        char spec[64];
        fill_normal(&rng, n, 0.01f);
        snprintf(spec, sizeof spec, "qsgd:levels=%u,bucket=268435456,norm=l2,coder=elias", root);
        round_trip(spec, &first, values, n);
        // The head and the padding are not the paper's: 8 bytes more.
        assert_true(8.0 * (double)trip.len <= 2.8 * (double)n + 32 + 64);
    }
}

CASE(test_four_bits)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 26, TERN_PRNG_TEST, 0, 0);
    fill_normal(&rng, 51200, 1);
    round_trip("qsgd", &first, values, 51200);
    assert_int_equal(trip.len, 1 + 1 + 2 + 100 * 4 + 51200 / 2);
}

// --- Feeding back

static bool downloads(const char *spec)
{
    struct tern_codec codec = codec_of(spec);
    return tern_codec_downloads(&codec);
}

CASE(test_downloads_only_where_feeding_back_converges)
{
    assert_true(downloads("qsgd"));
    assert_true(downloads("qsgd:levels=2,bucket=64"));
    assert_false(downloads("qsgd:levels=2,bucket=65"));
    assert_false(downloads("qsgd:levels=1,bucket=32"));
    assert_false(downloads("qsgd:norm=l2"));
    assert_false(downloads("qsgd:norm=l2,levels=8,bucket=256"));
    assert_true(downloads("qsgd:norm=l2,levels=8,bucket=255"));
    assert_true(downloads("qsgd:levels=32767,norm=l2,bucket=268435456"));
}

// The energy of an error that is fed back, relative to that of an input, after many rounds.
static double energy_after(const char *spec, bool heavy)
{
    enum { N = 1024, ROUNDS = 300 };
    static float error[N];
    struct tern_prng rng;
    tern_prng_init(&rng, 27, TERN_PRNG_TEST, 0, 0);
    memset(error, 0, sizeof error);
    double inputs = 0;
    double errors = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct tern_encode_context context = {.seed = 6, .round = round};
        inputs = errors = 0;
        for (size_t i = 0; i < N; i++) {
            float input = normal_float(&rng);
            input *= heavy ? input * input : 1;
            values[i] = error[i] + input;
            inputs += (double)input * (double)input;
        }
        round_trip(spec, &context, values, N);
        for (size_t i = 0; i < N; i++) {
            error[i] = values[i] - trip.decoded[i];
            errors += (double)error[i] * (double)error[i];
        }
    }
    return errors / inputs;
}

CASE(test_errors_fed_back_stay_bounded_where_downloads_are_allowed)
{
    static const char *const specs[] = {"qsgd", "qsgd:levels=2,bucket=64",
                                        "qsgd:levels=8,bucket=1024",
                                        "qsgd:levels=8,bucket=255,norm=l2"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        double normal = energy_after(specs[i], false);
        double heavy = energy_after(specs[i], true);
        assert_true(normal < 4 && heavy < 4);
    }
    assert_true(energy_after("qsgd:levels=1,norm=l2", false) > 1e3);
}

CASE(test_specs)
{
    static const char *const refused[][2] = {
        {"qsgd:levels=0", "qsgd: levels is 1 to 32767, not \"0\""},
        {"qsgd:levels=7,bucket=0", "qsgd: bucket is 32 to 268435456, not \"0\""},
        {"qsgd:norm=l1", "qsgd: norm is max or l2, not \"l1\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct tern_codec codec;
        struct tern_spec_refusal refusal;
        char sentence[TERN_SPEC_SENTENCE_MAX];
        assert_int_equal(tern_codec_parse(refused[i][0], &codec, &refusal), TERN_ERR_ARGUMENT);
        tern_spec_explain(&refusal, sentence);
        assert_string_equal(sentence, refused[i][1]);
    }
    static const char *const longest = "qsgd:levels=32767,bucket=268435456,norm=l2,coder=elias";
    struct tern_codec codec = codec_of(longest);
    char spec[TERN_CODEC_SPEC_MAX];
    tern_codec_format(&codec, spec);
    assert_string_equal(spec, longest);
    codec = codec_of("qsgd");
    tern_codec_format(&codec, spec);
    assert_string_equal(spec, "qsgd:levels=7");
}

// --- Payloads that are wrong

#define REFUSE(n, result, ...)                                                                     \
    do {                                                                                           \
        const uint8_t payload_[] = {__VA_ARGS__};                                                  \
        refuse_payload(payload_, sizeof payload_, (n), (result));                                  \
    } while (0)
#define ONE 0, 0, 0x80, 0x3f

CASE(test_wrong_dense_payloads)
{
    REFUSE(3, TERN_OK, 0x40, 6, 0, ONE, 0x16, 0x0e);
    REFUSE(3, TERN_ERR_CORRUPT, 0x40);
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 0, 0, ONE, 0x16, 0x0e);
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 0x86, 0, ONE, 0x16, 0x0e);       // over-long varint
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 0x80, 0x80, 2, 0, ONE, 0, 0, 1); // s = 32768
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 6, 3, ONE, 0x16, 0x0e);          // D
    REFUSE(33, TERN_ERR_CORRUPT, 0x40, 1, 33, ONE, 0, 0, 0, 0, 0, 0, 0, 0, 1);
    REFUSE(33, TERN_OK, 0x40, 1, 32, ONE, ONE, 0, 0, 0, 0, 0, 0, 0, 0, 1);
    REFUSE(33, TERN_ERR_NON_FINITE, 0x40, 1, 32, ONE, 0, 0, 0x80, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0, 1);
    REFUSE(3, TERN_ERR_NON_FINITE, 0x40, 6, 0, 0, 0, 0x80, 0x7f, 0x16, 0x0e);
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 6, 0, ONE, 0x16);
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 6, 0, ONE, 0x16, 0x0e, 0);
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 6, 0, ONE, 0x17, 0x0e); // level 7 of 6
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 6, 0, ONE, 0x18, 0x0e); // minus 0
    REFUSE(3, TERN_ERR_CORRUPT, 0x40, 6, 0, ONE, 0x16, 0x1e); // padding
    REFUSE(3, TERN_OK, 0x40, 6, 0, 0, 0, 0, 0, 0x16, 0x0e);
    REFUSE(0, TERN_ERR_CORRUPT, 0x40, 6, 0);
}

CASE(test_wrong_elias_payloads)
{
    REFUSE(6, TERN_OK, 0x41, 4, 0, ONE, 3, 0x53, 0x28, 0x02);
    REFUSE(5, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 3, 0x53, 0x28, 0x02); // past the end
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 3, 0, ONE, 3, 0x53, 0x28, 0x02); // level 4 of 3
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 2, 0x53, 0x28, 0x02); // something is left
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 4, 0x53, 0x28, 0x02); // something is missing
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 7, 0x53, 0x28, 0x02);
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 0);
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE);
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 3, 0x53, 0x28, 0x42); // padding
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 3, 0x53, 0x28, 0x02, 0);
    REFUSE(6, TERN_ERR_CORRUPT, 0x41, 4, 0, ONE, 1, 0xff, 0xff, 0xff, 0xff, 0xff);
    REFUSE(6, TERN_ERR_NON_FINITE, 0x41, 4, 0, 0, 0, 0xc0, 0x7f, 3, 0x53, 0x28, 0x02);
}

CASE(test_damaged_payloads)
{
    static const char *const specs[] = {"qsgd:bucket=32", "qsgd:levels=4,coder=elias,bucket=40",
                                        "qsgd:levels=32767", "qsgd:levels=2,norm=l2,coder=elias"};
    struct tern_prng rng;
    tern_prng_init(&rng, 28, TERN_PRNG_TEST, 0, 0);
    for (size_t spec = 0; spec < sizeof specs / sizeof specs[0]; spec++) {
        size_t accepted = 0;
        for (size_t n = 1; n < 100; n++) {
            fill_normal(&rng, n, 1);
            round_trip(specs[spec], &first, values, n);
            accepted += damage_payload(n, 200);
        }
        assert_in_range(accepted, 100, 99 * 200 - 500);
    }
}
