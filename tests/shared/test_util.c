#include "check.h"

#include "tests/cases.h"
#include "util/bytes.h"
#include "util/math.h"
#include "util/sha256.h"
#include <math.h>
#include <string.h>

CASE(test_little_endian)
{
    uint8_t bytes[8];
    tern_put_le16(bytes, 0x0201);
    assert_memory_equal(bytes, "\x01\x02", 2);
    tern_put_le32(bytes, 0x84838281u);
    assert_memory_equal(bytes, "\x81\x82\x83\x84", 4);
    assert_int_equal(tern_get_le32(bytes), 0x84838281u);
    tern_put_le64(bytes, 0xf8f7f6f584838281u);
    assert_memory_equal(bytes, "\x81\x82\x83\x84\xf5\xf6\xf7\xf8", 8);
    assert_true(tern_get_le64(bytes) == 0xf8f7f6f584838281u);
    assert_int_equal(tern_get_le16(bytes + 6), 0xf8f7);
    tern_put_f32(bytes, -1.5f);
    assert_memory_equal(bytes, "\x00\x00\xc0\xbf", 4);
    assert_true(tern_get_f32(bytes) == -1.5f);
}

CASE(test_varint_round_trip)
{
    for (unsigned shift = 0; shift < 64; shift++) {
        for (int step = -1; step <= 1; step++) {
            uint64_t value = ((uint64_t)1 << shift) + (uint64_t)(int64_t)step;
            uint8_t bytes[TERN_VARINT_MAX];
            uint64_t back = ~value;
            size_t len = tern_put_varint(bytes, value);
            assert_int_equal(tern_get_varint(bytes, len, &back), len);
            assert_true(back == value);
            assert_int_equal(tern_get_varint(bytes, len - 1, &back), 0);
        }
    }
}

CASE(test_varint_refuses_other_forms)
{
    static const struct {
        uint8_t bytes[11];
        size_t len;
    } bad[] = {
        {{0}, 0},
        {{0x80}, 1},
        {{0x80, 0x00}, 2},
        {{0xff, 0x80, 0x00}, 3},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 10},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00}, 11},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t value = 7;
        assert_int_equal(tern_get_varint(bad[i].bytes, bad[i].len, &value), 0);
        assert_int_equal(value, 7);
    }
}

CASE(test_hex)
{
    const uint8_t bytes[] = {0x00, 0x9a, 0xff};
    char text[7];
    tern_hex_encode(bytes, sizeof bytes, text);
    assert_string_equal(text, "009aff");
    uint8_t back[3];
    assert_int_equal(tern_hex_decode("009AfF", back, 3), TERN_OK);
    assert_memory_equal(back, bytes, 3);
    const char *bad[] = {"", "0", "009af", "009aff0", "009afg", "00 aff", "-09aff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tern_hex_decode(bad[i], back, 3), TERN_ERR_CORRUPT);
    }
}

CASE(test_base64url)
{
    // RFC 4648, section 10, without padding, and the two letters that differ from base64.
    static const char *const examples[][2] = {
        {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff", "-_8"}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const char *plain = examples[i][0];
        size_t len = strlen(plain);
        char text[16];
        uint8_t back[16];
        tern_base64url_encode((const uint8_t *)plain, len, text);
        assert_string_equal(text, examples[i][1]);
        assert_int_equal(strlen(text), TERN_BASE64URL_LENGTH(len));
        assert_int_equal(tern_base64url_decode(text, strlen(text), back, len), TERN_OK);
        assert_memory_equal(back, plain, len);
    }
}

CASE(test_base64url_refuses_other_texts)
{
    uint8_t back[4];
    assert_int_equal(tern_base64url_decode("Zh", 2, back, 1), TERN_ERR_CORRUPT); // spare bits
    assert_int_equal(tern_base64url_decode("Zg=", 3, back, 1), TERN_ERR_CORRUPT);
    assert_int_equal(tern_base64url_decode("Zg==", 4, back, 1), TERN_ERR_CORRUPT);
    assert_int_equal(tern_base64url_decode("Z", 1, back, 1), TERN_ERR_CORRUPT);
    assert_int_equal(tern_base64url_decode("Zm9", 3, back, 2), TERN_ERR_CORRUPT);
    assert_int_equal(tern_base64url_decode("Zm+v", 4, back, 3), TERN_ERR_CORRUPT);
    assert_int_equal(tern_base64url_decode("Zm v", 4, back, 3), TERN_ERR_CORRUPT);
}

CASE(test_equal_constant_time)
{
    uint8_t a[32] = {1, 2, 3};
    uint8_t b[32] = {1, 2, 3};
    assert_true(tern_equal_constant_time(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(tern_equal_constant_time(a, b, sizeof a));
        b[i] ^= 0x80;
    }
    assert_true(tern_equal_constant_time(a, b, 0));
}

static void expect_sha256(const char *text, size_t times, const char *expected)
{
    struct tern_sha256 sha;
    tern_sha256_init(&sha);
    for (size_t i = 0; i < times; i++) {
        tern_sha256_update(&sha, text, strlen(text));
    }
    uint8_t digest[TERN_SHA256_SIZE];
    char hex[2 * TERN_SHA256_SIZE + 1];
    tern_sha256_final(&sha, digest);
    tern_hex_encode(digest, sizeof digest, hex);
    assert_string_equal(hex, expected);
}

// The examples of FIPS 180-4.
CASE(test_sha256)
{
    expect_sha256("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_sha256("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_sha256("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

CASE(test_sha256_in_any_pieces)
{
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 7);
    }
    for (size_t len = 0; len <= sizeof data; len++) {
        uint8_t whole[TERN_SHA256_SIZE];
        uint8_t pieces[TERN_SHA256_SIZE];
        tern_sha256(data, len, whole);
        struct tern_sha256 sha;
        tern_sha256_init(&sha);
        for (size_t at = 0, step = 1; at < len; at += step, step = step * 2 % 97) {
            step = step > len - at ? len - at : step;
            tern_sha256_update(&sha, data + at, step);
        }
        tern_sha256_final(&sha, pieces);
        assert_memory_equal(whole, pieces, sizeof whole);
    }
}

// The known answers published with Random123.
CASE(test_philox)
{
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct tern_prng rng;
        tern_prng_init(&rng, 0, TERN_PRNG_TEST, 0, 0);
        memcpy(rng.counter, known[i].counter, sizeof rng.counter);
        memcpy(rng.key, known[i].key, sizeof rng.key);
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(tern_prng_u32(&rng), known[i].out[k]);
        }
    }
}

CASE(test_streams_differ)
{
    struct tern_prng streams[6];
    tern_prng_init(&streams[0], 1, TERN_PRNG_TEST, 0, 0);
    tern_prng_init(&streams[1], 2, TERN_PRNG_TEST, 0, 0);
    tern_prng_init(&streams[2], (uint64_t)1 << 32, TERN_PRNG_TEST, 0, 0);
    tern_prng_init(&streams[3], 1, TERN_PRNG_COHORT, 0, 0);
    tern_prng_init(&streams[4], 1, TERN_PRNG_TEST, 1, 0);
    tern_prng_init(&streams[5], 1, TERN_PRNG_TEST, 0, 1);
    uint32_t first[6];
    for (size_t i = 0; i < 6; i++) {
        first[i] = tern_prng_u32(&streams[i]);
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(first[i], first[k]);
        }
    }
}

// Draw i is the same one by one, after any seek, and among many, also where the block counter
// passes 32 bits.
CASE(test_draws_are_found_by_index)
{
    enum { DRAWS = 300 };
    const uint64_t starts[] = {0, ((uint64_t)1 << 34) - 150, ((uint64_t)1 << 50) - DRAWS - 4};
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        struct tern_prng rng;
        uint32_t one_by_one[DRAWS], many[DRAWS];
        tern_prng_init(&rng, 7, TERN_PRNG_TEST, 3, 4);
        tern_prng_seek(&rng, starts[s]);
        for (size_t i = 0; i < DRAWS; i++) {
            one_by_one[i] = tern_prng_u32(&rng);
        }
        for (size_t from = 0; from < DRAWS; from += 7) {
            tern_prng_seek(&rng, starts[s] + from);
            tern_prng_fill(&rng, many, DRAWS - from);
            assert_memory_equal(many, one_by_one + from, (DRAWS - from) * sizeof *many);
        }
    }
    struct tern_prng fresh;
    tern_prng_init(&fresh, 7, TERN_PRNG_TEST, 3, 4);
    struct tern_prng sought = fresh;
    tern_prng_seek(&sought, 0);
    assert_int_equal(tern_prng_u32(&fresh), tern_prng_u32(&sought));
}

CASE(test_below_is_even)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 4, TERN_PRNG_TEST, 0, 0);
    unsigned seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint32_t draw = tern_prng_below(&rng, 7);
        assert_true(draw < 7);
        seen[draw]++;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_in_range(seen[i], 9600, 10400);
    }
    assert_int_equal(tern_prng_below(&rng, 1), 0);
    // With a bound of 3 * 2^30, scaling alone would give every third value twice as often.
    unsigned thirds = 0;
    for (int i = 0; i < 30000; i++) {
        thirds += tern_prng_below(&rng, 3u << 30) % 3 == 0;
    }
    assert_in_range(thirds, 9700, 10300);
}

CASE(test_float_range)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        float draw = tern_prng_float(&rng);
        assert_true(draw >= 0 && draw < 1);
        assert_true(draw * 0x1p24f == floorf(draw * 0x1p24f));
        sum += (double)draw;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.01);
}

CASE(test_sqrt_equals_libm)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 6, TERN_PRNG_TEST, 0, 0);
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = (uint64_t)tern_prng_u32(&rng) << 32 | tern_prng_u32(&rng);
        bits &= i % 3 == 0 ? 0x000fffffffffffffu : 0x7fffffffffffffffu; // subnormal every third
        bits &= i % 5 == 0 ? 0xffffffff00000000u : ~(uint64_t)0;
        double x;
        memcpy(&x, &bits, sizeof x);
        assert_true(isnan(x) || tern_sqrt(x) == sqrt(x));
    }
    assert_true(tern_sqrt(4) == 2 && tern_sqrt(0) == 0 && tern_sqrt(-1) == 0);
    assert_true(isinf(tern_sqrt(HUGE_VAL)));
    assert_true(tern_sqrt((double)NAN) == 0);
}

CASE(test_decimals_are_read_up_to_what_is_none)
{
    static const struct {
        const char *text;
        uint64_t number;
        size_t digits;
    } cases[] = {
        {"", 0, 0},
        {"-1", 0, 0},
        {"0", 0, 1},
        {"007/", 7, 3},
        {"4294967296", UINT64_C(4294967296), 10},
        {"18446744073709551609", UINT64_MAX - 6, 20},
        {"18446744073709551615-", UINT64_MAX, 20},
        {"18446744073709551616", UINT64_MAX, 20},
        {"99999999999999999999999", UINT64_MAX, 23},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t number = 1;
        assert_ptr_equal(tern_get_decimal(cases[i].text, &number), cases[i].text + cases[i].digits);
        assert_int_equal(number, cases[i].number);
    }
}
