// The sparse codecs: which values are sent, in what bytes, and what is left of the others.
#include "check.h"

#include "codec/codec.h"
#include "tests/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 3000, ROOM = 5 * LARGEST + 64 };

static struct tern_prng rng;

struct encoded {
    float before[LARGEST];
    float after[LARGEST]; // what is fed back
    float decoded[LARGEST];
    uint8_t payload[ROOM];
    size_t len;
};

static struct encoded now;

static struct tern_codec parse(const char *spec)
{
    struct tern_codec codec;
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    return codec;
}

// Encodes now.before into an allocation of just the bound, and decodes it again.
static void encode(const char *spec, const struct tern_encode_context *context, size_t n)
{
    struct tern_codec codec = parse(spec);
    size_t bound = tern_codec_bound(&codec, n);
    assert_in_range(bound, 1, tern_codec_bound_any(n));
    uint8_t *dst = malloc(bound);
    memcpy(now.after, now.before, n * sizeof *now.after);
    assert_int_equal(tern_codec_encode(&codec, context, now.after, n, dst, bound, &now.len),
                     TERN_OK);
    assert_in_range(now.len, 1, bound);
    memcpy(now.payload, dst, now.len);
    free(dst);
    assert_int_equal(tern_codec_decode(now.payload, now.len, now.decoded, n), TERN_OK);
}

static void fill_normal(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        now.before[i] = normal_float(&rng);
    }
}

// The rank of value i: how many go before it.
static size_t rank_of(const float *values, size_t n, size_t i)
{
    size_t rank = 0;
    for (size_t j = 0; j < n; j++) {
        float difference = fabsf(values[j]) - fabsf(values[i]);
        rank += difference > 0 || (j < i && difference == 0);
    }
    return rank;
}

// Values of rank below k that are not 0 are sent as they are, the others stay.
static void assert_largest_sent(size_t n, size_t k)
{
    for (size_t i = 0; i < n; i++) {
        bool sent = now.before[i] != 0 && rank_of(now.before, n, i) < k;
        float zero = 0;
        assert_same_floats(&now.decoded[i], sent ? &now.before[i] : &zero, 1);
        assert_same_floats(&now.after[i], sent ? &zero : &now.before[i], 1);
    }
}

CASE(test_the_largest_are_sent_and_the_others_stay)
{
    static const struct {
        const char *spec;
        size_t n;
        size_t k;
    } cases[] = {
        {"sparse", 1, 1},          {"sparse", 20, 1},           {"sparse", 21, 2},
        {"sparse:p=0.1", 640, 64}, {"sparse:p=0.001", 1000, 1}, {"sparse:p=0.001", 1001, 2},
        {"sparse:p=1", 100, 100},  {"sparse:p=0.000001", 7, 1}, {"sparse:p=0.7", 129, 91},
    };
    static const char *const coders[] = {"auto", "bitmap", "gaps"};
    tern_prng_init(&rng, 51, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t coder = 0; coder < 3; coder++) {
            char spec[TERN_CODEC_SPEC_MAX];
            strcpy(spec, cases[i].spec);
            strcat(strcat(strcat(spec, strchr(spec, ':') ? "," : ":"), "coder="), coders[coder]);
            fill_normal(cases[i].n);
            encode(spec, NULL, cases[i].n);
            assert_largest_sent(cases[i].n, cases[i].k);
        }
    }
}

// Any bit pattern of any exponent, with ties, zeros of both signs and subnormals.
CASE(test_ties_go_to_the_lower_index)
{
    tern_prng_init(&rng, 52, TERN_PRNG_TEST, 0, 0);
    for (int round = 0; round < 200; round++) {
        size_t n = 1 + tern_prng_below(&rng, 300);
        float some[4] = {0, any_float(&rng), any_float(&rng), float_of_bits(1)};
        for (size_t i = 0; i < n; i++) {
            float value = some[tern_prng_below(&rng, 4)];
            now.before[i] = tern_prng_below(&rng, 2) ? value : -value;
        }
        encode("sparse:p=0.3", NULL, n);
        assert_largest_sent(n, (3 * n + 9) / 10);
    }
}

CASE(test_bytes_are_those_of_the_format)
{
    memset(now.before, 0, sizeof now.before);
    now.before[3] = 1;
    now.before[9] = -2;
    static const uint8_t bitmap[] = {0x30, 0x08, 0x02, 0x00, 0, 0, 0x80, 0x3f, 0, 0, 0x00, 0xc0};
    encode("sparse:p=0.1,coder=bitmap", NULL, 20);
    assert_int_equal(now.len, sizeof bitmap);
    assert_memory_equal(now.payload, bitmap, sizeof bitmap);

    // f(r) for 2 of 20: 20, 13, 10, 10: r = 2. Gaps 3 and 5: bits 1 11, 01 10.
    static const uint8_t gaps[] = {0x31, 2, 2, 0x37, 0, 0, 0x80, 0x3f, 0, 0, 0x00, 0xc0};
    encode("sparse:p=0.1,coder=gaps", NULL, 20);
    assert_int_equal(now.len, sizeof gaps);
    assert_memory_equal(now.payload, gaps, sizeof gaps);

    // Equally long: the bitmap.
    encode("sparse:p=0.1", NULL, 20);
    assert_memory_equal(now.payload, bitmap, sizeof bitmap);
}

CASE(test_auto_is_the_smaller)
{
    static const float shares[] = {0.001f, 0.01f, 0.1f, 0.5f, 1};
    tern_prng_init(&rng, 53, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        size_t lengths[3];
        struct tern_codec codec = {.id = TERN_CODEC_SPARSE, .density = shares[i]};
        fill_normal(LARGEST);
        for (codec.coder = 0; codec.coder < 3; codec.coder++) {
            char spec[TERN_CODEC_SPEC_MAX];
            tern_codec_format(&codec, spec);
            encode(spec, NULL, LARGEST);
            lengths[codec.coder] = now.len;
        }
        size_t smaller = lengths[1] < lengths[2] ? lengths[1] : lengths[2];
        assert_int_equal(lengths[TERN_INDEX_AUTO], smaller);
    }
}

// The entropy of indices at density p is H(p) bits a value.
CASE(test_gaps_are_near_the_entropy)
{
    static const double shares[] = {0.002, 0.01, 0.05, 0.1};
    tern_prng_init(&rng, 54, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        struct tern_codec codec = {
            .id = TERN_CODEC_SPARSE, .density = (float)shares[i], .coder = TERN_INDEX_GAPS};
        char spec[TERN_CODEC_SPEC_MAX];
        tern_codec_format(&codec, spec);
        double bits = 0;
        for (int times = 0; times < 20; times++) {
            fill_normal(LARGEST);
            encode(spec, NULL, LARGEST);
            bits += 8 * ((double)now.len - 4 * ceil(shares[i] * LARGEST - 1e-9));
        }
        double p = shares[i];
        double entropy = -(p * log2(p) + (1 - p) * log2(1 - p)) * LARGEST * 20;
        // Mode, number, parameter and padding are at most 5 bytes a payload.
        assert_true(bits < 1.05 * entropy + 20 * 5 * 8);
    }
}

CASE(test_accumulating_touches_only_listed_values)
{
    tern_prng_init(&rng, 55, TERN_PRNG_TEST, 0, 0);
    for (int gaps = 0; gaps < 2; gaps++) {
        float acc[200];
        float expected[200];
        fill_normal(200);
        encode(gaps ? "sparse:coder=gaps" : "sparse:coder=bitmap", NULL, 200);
        for (size_t i = 0; i < 200; i++) {
            acc[i] = i % 2 ? -0.0f : NAN;
            expected[i] = now.decoded[i] != 0 ? acc[i] + 0.3f * now.decoded[i] : acc[i];
        }
        assert_int_equal(tern_codec_accumulate(now.payload, now.len, 0.3f, acc, 200), TERN_OK);
        assert_same_floats(acc, expected, 200);
    }
}

// --- Deep Gradient Compression

CASE(test_dgc_clears_the_velocity_where_it_sends)
{
    float velocity[500];
    struct tern_encode_context context = {.velocity = velocity};
    tern_prng_init(&rng, 56, TERN_PRNG_TEST, 0, 0);
    fill_normal(500);
    for (size_t i = 0; i < 500; i++) {
        velocity[i] = (float)i + 1;
    }
    encode("dgc:p=0.01", &context, 500);
    assert_largest_sent(500, 5);
    for (size_t i = 0; i < 500; i++) {
        assert_true(velocity[i] == (now.decoded[i] != 0 ? 0 : (float)i + 1));
    }
}

static size_t listed(size_t n)
{
    struct tern_codec_info info;
    assert_int_equal(tern_codec_inspect(now.payload, now.len, n, &info), TERN_OK);
    return info.nonzero;
}

CASE(test_dgc_warms_up)
{
    static const struct {
        uint32_t round;
        size_t sent;
    } stages[] = {{1, 500}, {2, 500}, {3, 125}, {5, 32}, {6, 32}, {7, 8}, {8, 8}, {9, 2}, {0, 2}};
    float velocity[2000] = {0};
    tern_prng_init(&rng, 57, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        struct tern_encode_context context = {.velocity = velocity, .round = stages[i].round};
        fill_normal(2000);
        encode("dgc:p=0.001,warmup=8", &context, 2000);
        assert_int_equal(listed(2000), stages[i].sent);
    }
}

CASE(test_dgc_needs_a_velocity)
{
    struct tern_codec codec = parse("dgc");
    float values[10] = {1};
    uint8_t dst[200];
    size_t len = 0;
    assert_int_equal(tern_codec_encode(&codec, NULL, values, 10, dst, sizeof dst, &len),
                     TERN_ERR_ARGUMENT);
}

// --- Hostile payloads

static void refuse(const uint8_t *bytes, size_t len, size_t n, enum tern_result expected)
{
    uint8_t *src = malloc(len);
    float acc[64];
    float same[64];
    struct tern_codec_info info;
    memcpy(src, bytes, len);
    memset(acc, 0x5a, sizeof acc);
    memset(same, 0x5a, sizeof same);
    assert_int_equal(tern_codec_decode(src, len, acc, n), expected);
    assert_int_equal(tern_codec_accumulate(src, len, 1, acc, n), expected);
    assert_int_equal(tern_codec_inspect(src, len, n, &info), expected);
    assert_same_floats(acc, same, 64);
    free(src);
}

#define REFUSE(n, expected, ...)                                                                   \
    do {                                                                                           \
        static const uint8_t bytes_[] = {__VA_ARGS__};                                             \
        refuse(bytes_, sizeof bytes_, n, expected);                                                \
    } while (0)

CASE(test_bad_payloads_are_refused)
{
    // The bitmap's padding, a value too few, a value too many, no value, no 1.
    REFUSE(4, TERN_ERR_CORRUPT, 0x30, 0x11, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x30, 0x03, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x30, 0x01, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f);
    REFUSE(9, TERN_ERR_CORRUPT, 0x30, 0x01);
    REFUSE(4, TERN_ERR_CORRUPT, 0x30, 0x00);
    REFUSE(4, TERN_ERR_CORRUPT, 0x30, 0x01, 0, 0, 0, 0x80);
    REFUSE(4, TERN_ERR_NON_FINITE, 0x30, 0x01, 0, 0, 0x80, 0x7f);
    // No index, more than n, a parameter of 32, past n, padding, a gap byte too many or too few.
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 0, 0);
    REFUSE(1, TERN_ERR_CORRUPT, 0x31, 2, 0, 3, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 32, 1, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 0, 0x10, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 31, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 0, 0x03, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 0, 0x01, 0x00, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 0, 0, 0, 0x80, 0x3f);
    REFUSE(60, TERN_ERR_CORRUPT, 0x31, 1, 8, 0x01, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 0, 0x00, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 1, 0, 0x01, 0, 0, 0, 0);
    REFUSE(4, TERN_ERR_NON_FINITE, 0x31, 1, 0, 0x01, 0, 0, 0xc0, 0x7f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31, 0x81, 0x00, 0, 0x01, 0, 0, 0x80, 0x3f);
    REFUSE(4, TERN_ERR_CORRUPT, 0x31);
    // Modes that only travel.
    REFUSE(4, TERN_ERR_UNKNOWN, 0x32, 1, 0, 0x01);
    REFUSE(4, TERN_ERR_UNKNOWN, 0x33, 0, 0, 0x80, 0x3f);
}

// Random sets of gaps: what is accepted has as many values as it lists, all in range.
CASE(test_random_gaps)
{
    tern_prng_init(&rng, 58, TERN_PRNG_TEST, 0, 0);
    size_t accepted = 0;
    for (int round = 0; round < 200000; round++) {
        size_t members = 1 + tern_prng_below(&rng, 3);
        size_t gap_bytes = tern_prng_below(&rng, 4);
        size_t len = 3 + gap_bytes + 4 * members;
        size_t n = 1 + tern_prng_below(&rng, 60);
        uint8_t *payload = malloc(len);
        float dst[60];
        memset(payload, 0x3f, len);
        payload[0] = 0x31;
        payload[1] = (uint8_t)members;
        payload[2] = (uint8_t)tern_prng_below(&rng, 5);
        for (size_t i = 0; i < gap_bytes; i++) {
            payload[3 + i] = (uint8_t)(tern_prng_u32(&rng) & tern_prng_u32(&rng));
        }
        if (tern_codec_decode(payload, len, dst, n) == TERN_OK) {
            size_t nonzero = 0;
            for (size_t i = 0; i < n; i++) {
                nonzero += dst[i] != 0;
            }
            assert_int_equal(nonzero, members);
            accepted++;
        }
        free(payload);
    }
    assert_in_range(accepted, 1000, 199000);
}
