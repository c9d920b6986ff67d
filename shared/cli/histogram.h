// What decoded values look like: how long their runs of zeros are, how large the others are, and
// what the best coder that knows only how often each value comes up would need. Pure.
#ifndef TERN_HISTOGRAM_H
#define TERN_HISTOGRAM_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

// Classes are powers of two: class k holds 2^k up to below 2^(k+1).
enum { RUN_CLASSES = 64, MAGNITUDE_CLASSES = 280, LEAST_EXPONENT = -150 };

struct histogram {
    uint64_t runs[RUN_CLASSES];             // of zeros, by length
    uint64_t magnitudes[MAGNITUDE_CLASSES]; // of values that are not zero; from 2^LEAST_EXPONENT
    uint64_t run_count;
    uint64_t longest;
};

void tern_histogram_fill(struct histogram *histogram, const float *values, size_t count);

// Order-0 entropy in bits per value; NaN where there are more than 256 different values.
double tern_values_entropy(const float *values, size_t count);

// "zero_runs": [{"from": 4, "to": 7, "runs": 12}, ...] and "magnitudes": [{"from": 0.5, "values":
// 3}, ...] of the classes that hold any.
void tern_histogram_to_json(const struct histogram *histogram, cJSON *json);

// Prints the classes between the first and the last that hold any, with bars.
void tern_histogram_print_runs(const struct histogram *histogram);
void tern_histogram_print_magnitudes(const struct histogram *histogram);

#endif
