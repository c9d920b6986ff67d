#include "check.h"

#include "error_feedback/error_storage.h"
#include "tests/cases.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX = 1000, STORAGES = 3 };

static float values[MAX], read_back[MAX];
static uint8_t bytes[4 * MAX];
static struct tern_prng rng;

static int start(void **state)
{
    (void)state;
    tern_prng_init(&rng, 32, TERN_PRNG_TEST, 0, 0);
    memset(bytes, 0, sizeof bytes);
    return 0;
}

static void store(enum tern_error_storage storage, uint32_t count)
{
    tern_error_storage_put(storage, values, 0, bytes, count);
    assert_int_equal(tern_error_storage_check(storage, bytes, count), TERN_OK);
    tern_error_storage_get(storage, bytes, 0, read_back, count);
}

static float stored(enum tern_error_storage storage, float value)
{
    values[0] = value;
    store(storage, 1);
    return read_back[0];
}

CASE_WITH(test_names_and_sizes, start, NULL)
{
    static const char *const names[] = {"float32", "bfloat16", "int8"};
    static const size_t of_130[] = {520, 260, 142}; // 130 values are two blocks and 2 values
    enum tern_error_storage storage = TERN_ERROR_INT8;
    for (int s = 0; s < STORAGES; s++) {
        assert_int_equal(tern_error_storage_from_name(names[s], &storage), TERN_OK);
        assert_int_equal(storage, s);
        assert_int_equal(TERN_ERROR_BYTES(storage, 130), of_130[s]);
        assert_int_equal(tern_error_storage_bytes(storage, 130), of_130[s]);
        assert_int_equal(tern_error_storage_bytes(storage, 0), 0);
    }
    assert_int_equal(tern_error_storage_from_name("int4", &storage), TERN_ERR_UNKNOWN);
    assert_int_equal(storage, TERN_ERROR_INT8);
}

CASE_WITH(test_auto_goes_by_the_size, start, NULL)
{
    static const uint32_t counts[] = {0, 1048576, 1048577, 8388608, 8388609, UINT32_MAX};
    static const enum tern_error_storage chosen[] = {TERN_ERROR_FLOAT32,  TERN_ERROR_FLOAT32,
                                                     TERN_ERROR_BFLOAT16, TERN_ERROR_BFLOAT16,
                                                     TERN_ERROR_INT8,     TERN_ERROR_INT8};
    enum tern_error_storage storage = TERN_ERROR_BFLOAT16;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        assert_int_equal(tern_error_storage_choose("auto", counts[i], &storage), TERN_OK);
        assert_int_equal(storage, chosen[i]);
        assert_int_equal(tern_error_storage_choose("int8", counts[i], &storage), TERN_OK);
        assert_int_equal(storage, TERN_ERROR_INT8);
    }
    assert_int_equal(tern_error_storage_choose("automatic", 0, &storage), TERN_ERR_UNKNOWN);
    assert_int_equal(storage, TERN_ERROR_INT8);
}

CASE_WITH(test_float32_keeps_every_bit, start, NULL)
{
    for (int i = 0; i < MAX; i++) {
        values[i] = any_float(&rng);
    }
    values[0] = -0.0f;
    store(TERN_ERROR_FLOAT32, MAX);
    assert_same_floats(read_back, values, MAX);
}

CASE_WITH(test_bfloat16_by_the_book, start, NULL)
{
    const struct {
        uint32_t bits;
        uint16_t expected;
    } cases[] = {
        {0x3f800000, 0x3f80}, // 1
        {0x3f808000, 0x3f80}, // half way: to even, down
        {0x3f818000, 0x3f82}, // half way: to even, up
        {0x3f808001, 0x3f81}, {0xbf80ffff, 0xbf81}, {0x80000000, 0x8000}, {0x00000001, 0x0000},
        {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f7f}, // the next one would be infinite
        {0x7f7fffff, 0x7f7f}, {0xff7fffff, 0xff7f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const float back = stored(TERN_ERROR_BFLOAT16, float_of_bits(cases[i].bits));
        assert_int_equal(bytes[0] | bytes[1] << 8, cases[i].expected);
        assert_int_equal(bits_of(back), (uint32_t)cases[i].expected << 16);
    }
    for (int i = 0; i < 20000; i++) {
        const float value = any_float(&rng);
        const double room = fabs((double)value) * 0x1p-8 + 0x1p-134;
        assert_true(fabs((double)stored(TERN_ERROR_BFLOAT16, value) - (double)value) <= room);
    }
}

// Two blocks: scales 2 and 0.5, and a tail of one value.
CASE_WITH(test_int8_by_the_book, start, NULL)
{
    memset(values, 0, sizeof values);
    values[0] = -254;   // -127 * 2
    values[1] = 3;      // 1.5: half way, to even
    values[2] = 5;      // 2.5: half way, to even
    values[63] = 1.01f; // 0.505
    values[64] = 63.5f;
    values[65] = -0.2f; // -0.4
    values[128] = 12.7f;
    store(TERN_ERROR_INT8, 129);
    const uint8_t scale_2[] = {0, 0, 0, 0x40}, scale_half[] = {0, 0, 0, 0x3f};
    assert_memory_equal(bytes, scale_2, 4);
    assert_int_equal((int8_t)bytes[4], -127);
    assert_int_equal(bytes[5], 2);
    assert_int_equal(bytes[6], 2);
    assert_int_equal(bytes[4 + 63], 1);
    assert_memory_equal(bytes + 68, scale_half, 4);
    assert_int_equal(bytes[68 + 4], 127);
    assert_int_equal(bytes[68 + 5], 0);
    assert_int_equal(bytes[2 * 68 + 4], 127);
    assert_true(read_back[0] == -254 && read_back[1] == 4 && read_back[64] == 63.5f);
    assert_int_equal(bits_of(read_back[65]), 0); // +0, whatever the sign
}

CASE_WITH(test_int8_is_off_by_half_a_step, start, NULL)
{
    for (int trial = 0; trial < 300; trial++) {
        const float size = fabsf(any_float(&rng)) / 64;
        const uint32_t count = 1 + tern_prng_below(&rng, MAX);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = normal_float(&rng) * size;
        }
        store(TERN_ERROR_INT8, count);
        for (uint32_t i = 0; i < count; i++) {
            double peak = 0;
            for (uint32_t k = i - i % 64; k < count && k < i - i % 64 + 64; k++) {
                peak = fmax(peak, fabs((double)values[k]));
            }
            // 3 ulp of subnormals, where the scale itself is rounded coarsely.
            const double room = peak / 253 + 65 * 0x1p-149;
            assert_true(fabs((double)read_back[i] - (double)values[i]) <= room);
        }
    }
}

CASE_WITH(test_int8_at_the_limits, start, NULL)
{
    const float limits[] = {FLT_MAX, -FLT_MAX,  0x1.fffffcp+127f,
                            FLT_MIN, 0x1p-149f, 130 * 0x1p-149f};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const float back = stored(TERN_ERROR_INT8, limits[i]);
        assert_true(isfinite(back));
        const double room = fabs((double)limits[i]) * 1e-6 + 127 * 0x1p-149;
        assert_true(fabs((double)back - (double)limits[i]) <= room);
    }
    assert_int_equal(bits_of(stored(TERN_ERROR_INT8, -0.0f)), 0);
}

// Ranges of whole blocks are what the whole would be.
CASE_WITH(test_ranges, start, NULL)
{
    static uint8_t whole[4 * MAX];
    for (int s = 0; s < STORAGES; s++) {
        const enum tern_error_storage storage = (enum tern_error_storage)s;
        for (int i = 0; i < MAX; i++) {
            values[i] = normal_float(&rng);
        }
        tern_error_storage_put(storage, values, 0, whole, MAX);
        tern_error_storage_put(storage, values + 960, 960, bytes, MAX - 960);
        tern_error_storage_put(storage, values, 0, bytes, 192);
        tern_error_storage_put(storage, values + 192, 192, bytes, 960 - 192);
        assert_memory_equal(bytes, whole, tern_error_storage_bytes(storage, MAX));
        float all[MAX];
        tern_error_storage_get(storage, whole, 0, all, MAX);
        tern_error_storage_get(storage, whole, 128, read_back, MAX - 128);
        assert_same_floats(read_back, all + 128, MAX - 128);
    }
}

CASE_WITH(test_damaged_bytes_are_refused, start, NULL)
{
    for (int s = 0; s < STORAGES; s++) {
        for (int i = 0; i < 130; i++) {
            values[i] = normal_float(&rng);
        }
        store((enum tern_error_storage)s, 130);
    }
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000,
                                   0xbf800000, 0x7e020409, 0x80000000};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) { // scales of the second block
        store(TERN_ERROR_INT8, 130);
        memcpy(bytes + 68, &bad[i], 4);
        assert_int_equal(tern_error_storage_check(TERN_ERROR_INT8, bytes, 130), TERN_ERR_CORRUPT);
    }
    store(TERN_ERROR_INT8, 130);
    bytes[141] = 0x80; // the last value
    assert_int_equal(tern_error_storage_check(TERN_ERROR_INT8, bytes, 130), TERN_ERR_CORRUPT);
    store(TERN_ERROR_BFLOAT16, 130);
    bytes[259] = 0xff, bytes[258] = 0x80;
    assert_int_equal(tern_error_storage_check(TERN_ERROR_BFLOAT16, bytes, 130), TERN_ERR_CORRUPT);
    store(TERN_ERROR_FLOAT32, 130);
    memcpy(bytes + 4 * 129, &bad[2], 4);
    assert_int_equal(tern_error_storage_check(TERN_ERROR_FLOAT32, bytes, 130), TERN_ERR_CORRUPT);
}
