#include "hosted/csv_order.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 240

static double values[ROWS];
static struct tern_prng rng;

static double uniform(void)
{
    return (double)tern_prng_below(&rng, 1u << 30) / (double)(1u << 30);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(void)
{
    qsort(values, ROWS, sizeof values[0], compare);
}

static void shuffle(void)
{
    for (uint32_t i = ROWS; i > 1; i--) {
        const uint32_t j = tern_prng_below(&rng, i);
        const double kept = values[i - 1];
        values[i - 1] = values[j];
        values[j] = kept;
    }
}

static void fall(void)
{
    for (int i = 0; i < ROWS / 2; i++) {
        const double kept = values[i];
        values[i] = values[ROWS - 1 - i];
        values[ROWS - 1 - i] = kept;
    }
}

static uint64_t count_distinct(void)
{
    uint64_t count = 0;
    for (int i = 0; i < ROWS; i++) {
        bool seen = false;
        for (int j = 0; j < i; j++) {
            seen = seen || values[j] == values[i];
        }
        count += !seen;
    }
    return count;
}

// first_late: the first value is put before the others at the end, as a held line is.
static enum tern_csv_suspect judge(const char *name, bool first_late)
{
    struct tern_csv_order order = {0};
    struct tern_csv_spread spread = {.numbers = ROWS, .low = values[0], .high = values[0]};
    for (int i = first_late; i < ROWS; i++) {
        tern_csv_order_add(&order, values[i]);
    }
    if (first_late) {
        tern_csv_order_prepend(&order, values[0]);
    }
    for (int i = 0; i < ROWS; i++) {
        spread.low = fmin(spread.low, values[i]);
        spread.high = fmax(spread.high, values[i]);
        spread.mean += values[i] / ROWS;
    }
    for (int i = 0; i < ROWS; i++) {
        spread.deviation += (values[i] - spread.mean) * (values[i] - spread.mean) / ROWS;
    }
    spread.deviation = sqrt(spread.deviation);
    spread.distinct = count_distinct();
    return tern_csv_order_judge(&order, &spread, name);
}

static void expect(const char *what, const char *name, enum tern_csv_suspect expected)
{
    for (int late = 0; late < 2; late++) {
        const enum tern_csv_suspect found = judge(name, late == 1);
        if (found != expected) {
            fail_msg("%s: %d, not %d", what, (int)found, (int)expected);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    tern_prng_init(&rng, 7, TERN_PRNG_DATA, 0, 0);
    return 0;
}

CASE_WITH(times_are_recognised_in_any_order, set_up, NULL)
{
    static const double units[] = {1, 1e3, 1e6, 1e9};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        for (int stamps = 1; stamps < 4; stamps++) {
            for (int i = 0; i < ROWS; i++) {
                values[i] = (1.7e9 + floor(i / stamps) * 10) * units[u];
            }
            expect("rising", "v", TERN_CSV_TIME);
            fall();
            expect("falling", "v", TERN_CSV_TIME);
            shuffle();
            expect("shuffled", NULL, TERN_CSV_TIME);
        }
    }
    for (int i = 0; i < ROWS; i++) {
        values[i] = 20240101 + i % 28 + 100 * (i / 28);
    }
    expect("days", "v", TERN_CSV_TIME);
}

CASE_WITH(rows_and_elapsed_times_are_recognised, set_up, NULL)
{
    for (int first = 0; first < 2; first++) {
        for (int i = 0; i < ROWS; i++) {
            values[i] = i + first;
        }
        expect("row numbers", "v", TERN_CSV_ROW_NUMBER);
        shuffle();
        expect("shuffled row numbers", "", TERN_CSV_ROW_NUMBER);
        sort();
        fall();
        expect("falling row numbers", NULL, TERN_CSV_ROW_NUMBER);
    }
    for (int i = 0; i < ROWS; i++) {
        values[i] = 500 + i * 3;
    }
    expect("steps of 3", "v", TERN_CSV_COUNTS);
    values[100] = values[98] + 1;
    expect("one line late", "v", TERN_CSV_COUNTS);
    for (int i = 0; i < ROWS; i++) {
        values[i] = i / 2;
    }
    expect("two a second", "v", TERN_CSV_COUNTS);
    for (int i = 0; i < ROWS; i++) {
        values[i] = i % 60;
    }
    expect("four sites", "v", TERN_CSV_COUNTS);
    double time = 0;
    for (int i = 0; i < ROWS; i++) {
        time += 0.9 + 0.2 * uniform();
        values[i] = time;
    }
    expect("with jitter", "v", TERN_CSV_COUNTS);
    time = 0;
    for (int i = 0; i < ROWS; i++) {
        time += 1 + (uniform() < 0.1);
        values[i] = time;
    }
    expect("with lines left out", "v", TERN_CSV_COUNTS);
    for (int i = 0; i < ROWS; i++) {
        values[i] = i + (i >= ROWS / 2 ? 5000 : 0);
    }
    expect("with a pause", "v", TERN_CSV_COUNTS);
}

CASE_WITH(ids_are_recognised, set_up, NULL)
{
    for (int i = 0; i < ROWS; i++) {
        values[i] = 10000 + (i * 500009) % 900001;
    }
    static const char *const names[] = {"id",         "patient_id", "patientID",
                                        "Unnamed: 0", "",           "sample id"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        expect(names[i], names[i], TERN_CSV_ID);
    }
    expect("unique", "v", TERN_CSV_UNIQUE);
    expect("unique, no name", NULL, TERN_CSV_UNIQUE);
    for (int i = 0; i < ROWS; i++) {
        values[i] = 1000 + i * 37 % 48;
    }
    expect("several rows of a patient", "patient_id", TERN_CSV_ID);
    expect("whole numbers", "humid", TERN_CSV_MEASURES);
}

CASE_WITH(measurements_are_left_alone, set_up, NULL)
{
    for (int i = 0; i < ROWS; i++) {
        values[i] = uniform() * 100;
    }
    expect("random", "", TERN_CSV_MEASURES);
    sort();
    expect("sorted", "v", TERN_CSV_SORTED);
    for (int i = 0; i < ROWS; i++) {
        values[i] = floor(uniform() * 200);
    }
    expect("random whole numbers", "v", TERN_CSV_MEASURES);
    sort();
    expect("sorted whole numbers", "v", TERN_CSV_SORTED);
    for (int i = 0; i < ROWS; i++) {
        values[i] = sin(i / 20.0);
    }
    expect("a wave", "v", TERN_CSV_MEASURES);
    for (int period = 4; period <= 31; period++) {
        for (int i = 0; i < ROWS; i++) {
            values[i] = i % period;
        }
        expect("hours, weekdays, days of a month", "v", TERN_CSV_MEASURES);
        for (int i = 0; i < ROWS; i++) {
            values[i] = i * period / ROWS;
        }
        expect("months one after the other", "v", TERN_CSV_MEASURES);
    }
    for (int i = 0; i < ROWS; i++) {
        values[i] = 20 + floor(i / 20.0) / 10;
    }
    expect("a slow rise that is rounded", "v", TERN_CSV_MEASURES);
    for (int i = 0; i < ROWS; i++) {
        values[i] = 101325 + floor(uniform() * 3000);
    }
    expect("pressure", "v", TERN_CSV_MEASURES);
    for (int i = 0; i < ROWS; i++) {
        values[i] = 100000 + (i * 27919) % 50000;
    }
    expect("fine whole numbers, each once", "v", TERN_CSV_MEASURES);
    for (int i = 0; i < ROWS; i++) {
        values[i] = 3;
    }
    expect("a constant", "time", TERN_CSV_MEASURES);
}
