// Statistics of decoded values for `tern-codec inspect`: lengths of zero runs, magnitudes, and the
// order-0 entropy, which is the size that the best coder without context would reach. Pure.
#ifndef TERN_HISTOGRAM_H
#define TERN_HISTOGRAM_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

// Classes are powers of two: class k holds 2^k up to below 2^(k+1).
enum { RUN_CLASSES = 64, MAGNITUDE_CLASSES = 280, LEAST_EXPONENT = -150 };

struct histogram {
    uint64_t runs[RUN_CLASSES];             // [k]: runs of zeros whose length is in class k
    uint64_t magnitudes[MAGNITUDE_CLASSES]; // [k]: nonzero values in class k + LEAST_EXPONENT
    uint64_t run_count;
    uint64_t longest;
};

void tern_histogram_fill(struct histogram *histogram, const float *values, size_t count);

// Order-0 entropy in bits per value; NaN if there are more than 256 different values.
double tern_values_entropy(const float *values, size_t count);

// Adds the classes that are not empty: "zero_runs": [{"from": 4, "to": 7, "runs": 12}, ...] and
// "magnitudes": [{"from": 0.5, "values": 3}, ...].
void tern_histogram_to_json(const struct histogram *histogram, cJSON *json);

// Prints a bar for each class from the first to the last that is not empty.
void tern_histogram_print_runs(const struct histogram *histogram);
void tern_histogram_print_magnitudes(const struct histogram *histogram);

#endif
