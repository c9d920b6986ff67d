#include "histogram.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR = 40, MAGNITUDES_PRINTED = 16 };

static unsigned power_of(uint64_t length)
{
    return 63 - (unsigned)__builtin_clzll(length);
}

static void end_run(struct histogram *histogram, uint64_t length)
{
    if (length == 0) {
        return;
    }
    histogram->runs[power_of(length)]++;
    histogram->run_count++;
    histogram->longest = length > histogram->longest ? length : histogram->longest;
}

void tern_histogram_fill(struct histogram *histogram, const float *values, size_t count)
{
    uint64_t length = 0;
    memset(histogram, 0, sizeof *histogram);
    for (size_t i = 0; i < count; i++) {
        if (values[i] == 0) {
            length++;
            continue;
        }
        end_run(histogram, length);
        length = 0;
        histogram->magnitudes[ilogbf(values[i]) - LEAST_EXPONENT]++;
    }
    end_run(histogram, length);
}

// --- Entropy

enum { SLOTS = 1024, DISTINCT_MAX = 256 };

struct distinct {
    uint64_t counts[SLOTS]; // 0: unused slot
    float values[SLOTS];
    size_t used;
};

static void count_value(struct distinct *distinct, float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    size_t slot = (bits * UINT32_C(2654435769)) >> 22;
    // Counts values by their bits. The caller adds 0 to each value first, so that -0 counts as +0.
    while (distinct->counts[slot] > 0 && distinct->values[slot] != value) {
        slot = (slot + 1) % SLOTS;
    }
    distinct->used += distinct->counts[slot] == 0;
    distinct->values[slot] = value;
    distinct->counts[slot]++;
}

double tern_values_entropy(const float *values, size_t count)
{
    struct distinct distinct = {.used = 0};
    for (size_t i = 0; i < count; i++) {
        count_value(&distinct, values[i] + 0.0f);
        if (distinct.used > DISTINCT_MAX) {
            return (double)NAN;
        }
    }
    double entropy = 0;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        if (distinct.counts[slot] > 0) {
            double share = (double)distinct.counts[slot] / (double)count;
            entropy -= share * log2(share);
        }
    }
    return entropy > 0 ? entropy : 0;
}

// --- Output

void tern_histogram_to_json(const struct histogram *histogram, cJSON *json)
{
    cJSON *runs = cJSON_AddArrayToObject(json, "zero_runs");
    for (unsigned k = 0; k < RUN_CLASSES; k++) {
        if (histogram->runs[k] > 0) {
            cJSON *class = cJSON_CreateObject();
            cJSON_AddNumberToObject(class, "from", ldexp(1, (int)k));
            cJSON_AddNumberToObject(class, "to", ldexp(2, (int)k) - 1);
            cJSON_AddNumberToObject(class, "runs", (double)histogram->runs[k]);
            cJSON_AddItemToArray(runs, class);
        }
    }
    cJSON *magnitudes = cJSON_AddArrayToObject(json, "magnitudes");
    for (int k = 0; k < MAGNITUDE_CLASSES; k++) {
        if (histogram->magnitudes[k] > 0) {
            cJSON *class = cJSON_CreateObject();
            cJSON_AddNumberToObject(class, "from", ldexp(1, k + LEAST_EXPONENT));
            cJSON_AddNumberToObject(class, "values", (double)histogram->magnitudes[k]);
            cJSON_AddItemToArray(magnitudes, class);
        }
    }
}

static void print_bar(uint64_t part, uint64_t largest)
{
    int length = (int)ceil(BAR * (double)part / (double)largest);
    for (int i = 0; i < length; i++) {
        putchar('#');
    }
    putchar('\n');
}

static uint64_t largest_of(const uint64_t *classes, int count)
{
    uint64_t largest = 0;
    for (int k = 0; k < count; k++) {
        largest = classes[k] > largest ? classes[k] : largest;
    }
    return largest;
}

void tern_histogram_print_runs(const struct histogram *histogram)
{
    printf("zero runs       %" PRIu64 ", the longest of %" PRIu64 " values\n", histogram->run_count,
           histogram->longest);
    if (histogram->run_count == 0) {
        return;
    }
    uint64_t largest = largest_of(histogram->runs, RUN_CLASSES);
    printf("%21s %10s\n", "length", "runs");
    for (unsigned k = 0; k <= power_of(histogram->longest); k++) {
        char range[48];
        uint64_t from = UINT64_C(1) << k;
        (void)snprintf(range, sizeof range, k == 0 ? "%" PRIu64 : "%" PRIu64 "-%" PRIu64, from,
                       2 * from - 1);
        printf("%21s %10" PRIu64 " ", range, histogram->runs[k]);
        print_bar(histogram->runs[k], largest);
    }
}

void tern_histogram_print_magnitudes(const struct histogram *histogram)
{
    uint64_t largest = largest_of(histogram->magnitudes, MAGNITUDE_CLASSES);
    int top = MAGNITUDE_CLASSES - 1;
    while (top > 0 && histogram->magnitudes[top] == 0) {
        top--;
    }
    int last = top < MAGNITUDES_PRINTED ? 0 : top - MAGNITUDES_PRINTED + 1;
    while (last < top && histogram->magnitudes[last] == 0) {
        last++;
    }
    uint64_t below = 0;
    for (int k = 0; k < last; k++) {
        below += histogram->magnitudes[k];
    }
    printf("magnitudes\n%21s %10s\n", "from", "values");
    for (int k = top; k >= last && largest > 0; k--) {
        printf("%21.4g %10" PRIu64 " ", ldexp(1, k + LEAST_EXPONENT), histogram->magnitudes[k]);
        print_bar(histogram->magnitudes[k], largest);
    }
    if (below > 0) {
        printf("%21s %10" PRIu64 "\n", "below", below);
    }
}
