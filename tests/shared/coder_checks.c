#include "coder_checks.h"

#include "codec/codec.h"
#include "util/bytes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = TERN_TERNARY_SCALE_BYTES };

// --- Symbols

struct tern_planes planes_new(size_t count)
{
    size_t words = tern_plane_words(count) + 1;
    return (struct tern_planes){.nonzero = calloc(words, sizeof(uint64_t)),
                                .negative = calloc(words, sizeof(uint64_t)),
                                .count = count};
}

void planes_free(struct tern_planes planes)
{
    free(planes.nonzero);
    free(planes.negative);
}

void planes_set(struct tern_planes planes, size_t at, bool negative)
{
    planes.nonzero[at / 64] |= 1ull << at % 64;
    planes.negative[at / 64] |= (uint64_t)negative << at % 64;
}

struct tern_planes planes_random(struct tern_prng *rng, size_t count, float density)
{
    struct tern_planes planes = planes_new(count);
    for (size_t i = 0; i < count; i++) {
        if (tern_prng_float(rng) < density) {
            planes_set(planes, i, (tern_prng_u32(rng) & 1) != 0);
        }
    }
    return planes;
}

struct tern_planes planes_rows(struct tern_prng *rng, size_t count, size_t row, double threshold)
{
    struct tern_planes planes = planes_new(count);
    double scale = 1;
    for (size_t i = 0; i < count; i++) {
        scale = i % row == 0 ? exp((double)normal_float(rng)) : scale;
        double value = scale * (double)normal_float(rng);
        if (fabs(value) > threshold) {
            planes_set(planes, i, value < 0);
        }
    }
    return planes;
}

static size_t nonzero_of(struct tern_planes planes)
{
    size_t nonzero = 0;
    for (size_t word = 0; word < tern_plane_words(planes.count); word++) {
        nonzero += (size_t)__builtin_popcountll(planes.nonzero[word]);
    }
    return nonzero;
}

double planes_entropy(struct tern_planes planes)
{
    double n = (double)planes.count;
    double p = (double)nonzero_of(planes) / n;
    return n * (p - p * log2(p) - (1 - p) * log2(1 - p));
}

// --- Round trips

// A body of scale 0.75 in an allocation of its length, so that ASan sees a read past it.
static uint8_t *encode(struct coder_under_test test, struct tern_planes planes, size_t *len)
{
    size_t bound = test.coder->bound(planes.count);
    uint8_t *room = malloc(bound);
    size_t written = test.coder->encode(&planes, room);
    assert_in_range(written, 0, bound);
    uint8_t *body = malloc(HEAD + written);
    tern_put_f32(body, 0.75f);
    memcpy(body + HEAD, room, written);
    free(room);
    *len = HEAD + written;
    return body;
}

struct added {
    float *values;
    size_t count;
    float weight;
    size_t nonzero;
};

static void add_each(void *ctx, float scale, const struct tern_indices *indices)
{
    struct added *added = ctx;
    for (size_t i = 0; i < indices->count; i++) {
        size_t at = (size_t)(indices->of[i] / 2);
        assert_true(at < added->count);
        added->values[at] += added->weight * (indices->of[i] % 2 != 0 ? -scale : scale);
    }
    added->nonzero += indices->count;
}

static void compare_values(struct coder_under_test test, const uint8_t *body, size_t len,
                           struct tern_planes planes)
{
    size_t n = planes.count;
    float *expected = malloc((n + 1) * sizeof *expected);
    float *values = malloc((n + 1) * sizeof *values);
    tern_kernel_planes_set(planes, 0.75f, expected);
    memset(values, 0x5a, (n + 1) * sizeof *values);
    expected[n] = values[n];
    test.mode->decode(body, len, values, n);
    assert_same_floats(values, expected, n + 1);
    // Values that are not added to keep their bits, -0 included.
    for (size_t i = 0; i < n; i++) {
        values[i] = expected[i] = -0.0f;
    }
    tern_kernel_planes_add(planes, 0.75f * -0.3f, expected);
    test.mode->accumulate(body, len, -0.3f, values, n);
    assert_same_floats(values, expected, n + 1);
    if (test.mode->each != NULL) {
        struct added added = {values, n, -0.3f, 0};
        assert_int_equal(test.mode->each(body, len, n, add_each, &added), TERN_OK);
        tern_kernel_planes_add(planes, 0.75f * -0.3f, expected);
        assert_same_floats(values, expected, n + 1);
    }
    free(expected);
    free(values);
}

double check_round_trip(struct coder_under_test test, struct tern_planes planes)
{
    size_t len = 0;
    uint8_t *body = encode(test, planes, &len);
    assert_int_equal(test.mode->check(body, len, planes.count), TERN_OK);
    compare_values(test, body, len, planes);
    struct tern_codec_info info = {.scale = 0};
    test.mode->describe(body, len, planes.count, &info);
    assert_int_equal(info.nonzero, nonzero_of(planes));
    assert_true(info.scale == 0.75f);
    free(body);
    return 8 * (double)(len - HEAD);
}

static void round_trip_and_free(struct coder_under_test test, struct tern_planes planes)
{
    check_round_trip(test, planes);
    planes_free(planes);
}

static void check_lone_values(struct coder_under_test test, size_t n)
{
    for (size_t at = 0; at < n; at += 1 + n / 40) {
        struct tern_planes planes = planes_new(n);
        planes_set(planes, at, at % 2 != 0);
        round_trip_and_free(test, planes);
    }
}

void check_round_trips(struct coder_under_test test)
{
    static const float densities[] = {0, 0.003f, 0.02f, 0.07f, 0.2f, 0.5f, 0.9f, 1};
    static const size_t large[] = {511, 512, 513, 4096, 65537, 300001};
    struct tern_prng rng;
    tern_prng_init(&rng, 51, TERN_PRNG_TEST, 0, 0);
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        for (size_t n = 0; n <= 200; n++) {
            round_trip_and_free(test, planes_random(&rng, n, densities[d]));
        }
        for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
            round_trip_and_free(test, planes_random(&rng, large[i], densities[d]));
        }
    }
    for (size_t n = 1; n <= 100000; n *= 3) {
        check_lone_values(test, n);
    }
}

// --- Bound

// Runs of values and of zeros, of lengths up to the powers of two given.
static struct tern_planes planes_runs(struct tern_prng *rng, size_t n, unsigned values,
                                      unsigned zeros)
{
    struct tern_planes planes = planes_new(n);
    uint32_t sign = 0;
    for (size_t at = 0; at < n;) {
        size_t run = 1 + tern_prng_below(rng, 1u << values);
        sign ^= tern_prng_below(rng, 40) == 0;
        for (; run > 0 && at < n; run--, at++) {
            planes_set(planes, at, sign != 0);
        }
        at += tern_prng_below(rng, 1u << zeros);
    }
    return planes;
}

void check_bound(struct coder_under_test test)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 52, TERN_PRNG_TEST, 0, 0);
    for (unsigned values = 0; values < 10; values++) {
        for (unsigned zeros = 0; zeros < 14; zeros++) {
            round_trip_and_free(test, planes_runs(&rng, 20000, values, zeros));
            round_trip_and_free(test, planes_runs(&rng, 1 + zeros, values, zeros));
        }
    }
    for (size_t n = 0; n < 5000; n++) {
        // The most that tern_codec_bound_any() leaves beside the planes.
        size_t planes = (2 * tern_plane_words(n) + 1) * sizeof(uint64_t);
        assert_in_range(TERN_TERNARY_HEAD + test.coder->bound(n) + planes, 0,
                        tern_codec_bound_any(n));
    }
}

// --- Damage

static struct tern_planes planes_of(const float *values, size_t n)
{
    struct tern_planes planes = planes_new(n);
    for (size_t i = 0; i < n; i++) {
        if (values[i] != 0) {
            planes_set(planes, i, values[i] < 0);
        }
    }
    return planes;
}

// What takes a body in one pass says of it what check() does, and finds no values but its own.
static void check_single_pass(struct coder_under_test test, const uint8_t *body, size_t len,
                              size_t n, enum tern_result result)
{
    struct added added = {calloc(n + 1, sizeof(float)), n, 1, 0};
    assert_int_equal(test.mode->each(body, len, n, add_each, &added), result);
    free(added.values);
    if (result == TERN_OK) {
        struct tern_codec_info info = {.scale = 0};
        test.mode->describe(body, len, n, &info);
        assert_int_equal(added.nonzero, info.nonzero);
    }
}

// Whether the body is accepted. If so, encoding what it decodes to must give the same bytes.
static bool check_body(struct coder_under_test test, const uint8_t *src, size_t len, size_t n)
{
    uint8_t *body = malloc(len);
    memcpy(body, src, len);
    enum tern_result result = test.mode->check(body, len, n);
    bool accepted = result == TERN_OK;
    if (test.mode->each != NULL) {
        check_single_pass(test, body, len, n, result);
    }
    if (accepted) {
        float *values = malloc((n + 1) * sizeof *values);
        test.mode->decode(body, len, values, n);
        struct tern_planes planes = planes_of(values, n);
        size_t again_len = 0;
        uint8_t *again = encode(test, planes, &again_len);
        assert_int_equal(again_len, len);
        assert_memory_equal(again + HEAD, body + HEAD, len - HEAD);
        free(again);
        planes_free(planes);
        free(values);
    }
    free(body);
    return accepted;
}

static void check_damage_of(struct coder_under_test test, struct tern_planes planes)
{
    size_t len = 0;
    size_t n = planes.count;
    uint8_t *body = encode(test, planes, &len);
    assert_true(check_body(test, body, len, n));
    for (size_t cut = 0; cut < len; cut++) {
        check_body(test, body, cut, n);
    }
    for (size_t at = HEAD; at < len; at++) {
        for (unsigned change = 1; change < 256; change++) {
            body[at] ^= (uint8_t)change;
            check_body(test, body, len, n);
            body[at] ^= (uint8_t)change;
        }
    }
    uint8_t *longer = realloc(body, len + 1);
    assert_non_null(longer);
    body = longer;
    for (unsigned added = 0; added < 256; added++) {
        body[len] = (uint8_t)added;
        check_body(test, body, len + 1, n);
    }
    // For more or fewer values than they were made for, they may say something, but only one thing.
    for (size_t other = n > 20 ? n - 20 : 0; other < n + 20; other++) {
        check_body(test, body, len, other);
    }
    free(body);
    planes_free(planes);
}

static void check_random_bodies(struct coder_under_test test, struct tern_prng *rng)
{
    uint8_t body[HEAD + 24];
    size_t accepted = 0;
    tern_put_f32(body, 0.75f);
    for (size_t round = 0; round < 200000; round++) {
        size_t len = HEAD + tern_prng_below(rng, 24);
        uint32_t filler =
            tern_prng_below(rng, 8); // often of one byte, as 0x00 and 0xff are special
        for (size_t i = HEAD; i < len; i++) {
            body[i] = filler == 0 ? 0xff : filler == 1 ? 0 : (uint8_t)tern_prng_u32(rng);
        }
        accepted += check_body(test, body, len, tern_prng_below(rng, 40));
    }
    assert_in_range(accepted, 1, 199999);
}

void check_damage(struct coder_under_test test)
{
    static const float densities[] = {0.01f, 0.1f, 0.3f, 0.9f};
    struct tern_prng rng;
    tern_prng_init(&rng, 53, TERN_PRNG_TEST, 0, 0);
    for (size_t d = 0; d < 4; d++) {
        for (size_t n = 1; n <= 150; n += 1 + n / 5) {
            check_damage_of(test, planes_random(&rng, n, densities[d]));
        }
    }
    check_damage_of(test, planes_random(&rng, 3000, 0.001f));
    check_random_bodies(test, &rng);
    // A scale that is no scale.
    const uint8_t negative[] = {0, 0, 0x80, 0xbf, 0};
    assert_int_equal(test.mode->check(negative, sizeof negative, 1), TERN_ERR_NON_FINITE);
}
