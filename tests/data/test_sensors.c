#include "data/generated.h"
#include "tests/cases.h"
#include "util/crc32c.h"
#include "util/math.h"
#include <math.h>
#include <string.h>

#define COUNT 500
#define DEVICES 20
#define COLUMNS TERN_SENSORS_COLUMNS

static float values[COUNT][COLUMNS];
static uint32_t devices[COUNT];
static uint16_t labels[COUNT];

static void draw(uint64_t seed, bool test)
{
    struct tern_sensors_machine machine;
    tern_sensors_machine(seed, &machine);
    for (uint32_t i = 0; i < COUNT; i++) {
        labels[i] = tern_sensors_draw(&machine, test, i, DEVICES, values[i], &devices[i]);
    }
}

static uint32_t digest(uint64_t seed, bool test)
{
    uint32_t crc = 0;
    draw(seed, test);
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            const uint32_t bits = tern_float_bits(values[i][c]);
            const uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                                      (uint8_t)(bits >> 24)};
            crc = tern_crc32c(crc, bytes, sizeof bytes);
        }
        const uint8_t ends[2] = {(uint8_t)labels[i], (uint8_t)devices[i]};
        crc = tern_crc32c(crc, ends, sizeof ends);
    }
    return crc;
}

// These digests were computed once; every machine must give them.
CASE(bits_are_the_same_everywhere)
{
    assert_int_equal(digest(1, false), 0x436ed1c3u);
    assert_int_equal(digest(1, true), 0x45a4bf28u);
}

CASE(seeds_differ)
{
    assert_int_not_equal(digest(1, false), digest(2, false));
}

CASE(all_states_and_devices_occur)
{
    uint32_t seen[TERN_SENSORS_CLASSES] = {0};
    uint32_t of_device[DEVICES] = {0};
    draw(5, false);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(labels[i] < TERN_SENSORS_CLASSES && devices[i] < DEVICES);
        seen[labels[i]]++;
        of_device[devices[i]]++;
        for (uint32_t c = 0; c < COLUMNS; c++) {
            assert_true(tern_is_finite(values[i][c]));
        }
    }
    for (int k = 0; k < TERN_SENSORS_CLASSES; k++) {
        assert_in_range(seen[k], COUNT / 32, COUNT / 3);
    }
    for (int d = 0; d < DEVICES; d++) {
        assert_in_range(of_device[d], COUNT / DEVICES / 5, 3 * COUNT / DEVICES);
    }
}

static void moments(uint32_t column, double *variance, double *kurtosis)
{
    double mean = 0.0;
    double second = 0.0;
    double fourth = 0.0;
    for (uint32_t i = 0; i < COUNT; i++) {
        mean += (double)values[i][column] / COUNT;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        const double off = (double)values[i][column] - mean;
        second += off * off / COUNT;
        fourth += off * off * off * off / COUNT;
    }
    *variance = second;
    *kurtosis = fourth / second / second;
}

CASE(columns_are_unlike)
{
    double least = 1e9;
    double most = 0.0;
    int heavy = 0;
    draw(1, false);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        double variance;
        double kurtosis;
        moments(c, &variance, &kurtosis);
        least = variance < least ? variance : least;
        most = variance > most ? variance : most;
        heavy += kurtosis > 6.0;
    }
    assert_true(most > 100.0 * least);
    assert_in_range(heavy, 4, 16);
}
