// The coder of gaps: its bytes, its size against the entropy, and damage.
#include "coder_checks.h"

#include <string.h>

static const struct coder_under_test gaps = {&tern_gaps_coder, &tern_ternary_gaps_mode};

static void test_round_trips(void **state)
{
    (void)state;
    check_round_trips(gaps);
}

static void test_bound(void **state)
{
    (void)state;
    check_bound(gaps);
}

static void test_damage(void **state)
{
    (void)state;
    check_damage(gaps);
}

// 0 0 +1 0 -1, by hand: gap 2 with parameter 3, then gap 1 with parameter 2.
static void test_bytes(void **state)
{
    (void)state;
    const uint8_t expected[] = {0x65, 0x01};
    uint8_t room[64];
    struct tern_planes planes = planes_new(5);
    planes_set(planes, 2, false);
    planes_set(planes, 4, true);
    assert_in_range(gaps.coder->bound(5), 2, sizeof room);
    assert_int_equal(gaps.coder->encode(&planes, room), sizeof expected);
    assert_memory_equal(room, expected, sizeof expected);
    planes_free(planes);
}

// The bytes of test_bytes(), damaged where decoding does not look for symbols, or differently.
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        uint8_t bits[4];
        size_t len;
    } refused[] = {
        {{0x65}, 1},                   // bits are missing
        {{0x65, 0x01, 0x00}, 3},       // a byte that was not begun
        {{0x65, 0x03}, 2},             // unused bits
        {{0x61, 0x01}, 2},             // a gap of 0, then one that passes the end
        {{0x00, 0x00, 0x01, 0x00}, 4}, // the long form for a short gap
        {{0x00, 0x00, 0xff, 0xff}, 4}, // a longer gap than numbers hold
        {{0}, 0},
    };
    const uint8_t right[] = {0, 0, 0x80, 0x3f, 0x65, 0x01};
    assert_int_equal(gaps.mode->check(right, sizeof right, 5), TERN_OK);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        uint8_t body[8] = {0, 0, 0x80, 0x3f};
        memcpy(body + 4, refused[i].bits, 4);
        assert_int_equal(gaps.mode->check(body, 4 + refused[i].len, 5), TERN_ERR_CORRUPT);
    }
}

// A gap of 2^20 takes the long form: 16 zeros, its length, 20 bits and no sign.
static void test_long_gap(void **state)
{
    (void)state;
    struct tern_planes planes = planes_new(1u << 20);
    assert_true(check_round_trip(gaps, planes) == 48);
    planes_free(planes);
}

static void test_near_the_entropy(void **state)
{
    (void)state;
    static const float densities[] = {0.1f, 0.07f, 0.05f, 0.03f, 0.02f, 0.01f, 0.003f, 0.001f};
    struct tern_prng rng;
    tern_prng_init(&rng, 54, TERN_PRNG_TEST, 0, 0);
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        struct tern_planes planes = planes_random(&rng, 1000000, densities[d]);
        assert_true(check_round_trip(gaps, planes) < 1.025 * planes_entropy(planes));
        planes_free(planes);
    }
    struct tern_planes small = planes_random(&rng, 100000, 0.01f);
    assert_true(check_round_trip(gaps, small) < 1.04 * planes_entropy(small));
    planes_free(small);
}

// The parameter follows rows of different density.
static void test_follows_the_density(void **state)
{
    (void)state;
    struct tern_prng rng;
    tern_prng_init(&rng, 55, TERN_PRNG_TEST, 0, 0);
    struct tern_planes planes = planes_rows(&rng, 1000000, 512, 4.72);
    assert_true(check_round_trip(gaps, planes) < 0.76 * planes_entropy(planes));
    planes_free(planes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),      cmocka_unit_test(test_bound),
        cmocka_unit_test(test_damage),           cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_long_gap),
        cmocka_unit_test(test_near_the_entropy), cmocka_unit_test(test_follows_the_density),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
