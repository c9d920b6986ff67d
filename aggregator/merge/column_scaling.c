#include "merge/column_scaling.h"

#include "util/math.h"
#include <float.h>
#include <stdlib.h>

// One client's statistics of the column that is being made.
struct reported {
    double weight; // the same for all columns
    double mean;
    double variance;
};

struct making {
    const struct tern_column_part *parts;
    uint32_t count;
    struct reported *reported; // [count]
    double *sorted;            // [count], scratch
    struct tern_column_scaling_report *report;
};

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

// Sorts making->sorted and returns its median; the mean of the middle two if their number is even.
static double median(struct making *making)
{
    const uint32_t half = making->count / 2;
    qsort(making->sorted, making->count, sizeof making->sorted[0], compare);
    return making->count % 2 != 0 ? making->sorted[half]
                                  : (making->sorted[half - 1] + making->sorted[half]) / 2.0;
}

static void weigh(struct making *making)
{
    for (uint32_t i = 0; i < making->count; i++) {
        making->sorted[i] = (double)making->parts[i].num_examples;
    }
    const double most = making->count >= TERN_COLUMN_SCALING_ROBUST_FROM
                            ? TERN_COLUMN_SCALING_FAR * median(making)
                            : (double)UINT32_MAX;
    for (uint32_t i = 0; i < making->count; i++) {
        const double examples = (double)making->parts[i].num_examples;
        making->reported[i].weight = examples < most ? examples : most;
    }
}

static void read_column(struct making *making, uint32_t column)
{
    for (uint32_t i = 0; i < making->count; i++) {
        const struct tern_span columns = {making->parts[i].columns, 0};
        const struct tern_column_pair pair = tern_column_get(columns, column);
        making->reported[i].mean = (double)pair.mean;
        making->reported[i].variance = (double)pair.spread;
    }
}

// Returns the mean squared distance of the client's column values from `centre`.
static double square_about(const struct reported *reported, double centre)
{
    const double off = reported->mean - centre;
    return reported->variance + off * off;
}

// Moves the statistics of clients that are far from the median client towards the median. If most clients have the same value,
// no distance counts as far.
static void bound(struct making *making)
{
    for (uint32_t i = 0; i < making->count; i++) {
        making->sorted[i] = making->reported[i].mean;
    }
    const double centre = median(making);
    for (uint32_t i = 0; i < making->count; i++) {
        making->sorted[i] = square_about(&making->reported[i], centre);
    }
    const double most = TERN_COLUMN_SCALING_FAR * TERN_COLUMN_SCALING_FAR * median(making);
    for (uint32_t i = 0; i < making->count && most > 0.0; i++) {
        struct reported *reported = &making->reported[i];
        const double square = square_about(reported, centre);
        if (square > most) {
            const double share = most / square;
            reported->mean = centre + tern_sqrt(share) * (reported->mean - centre);
            reported->variance *= share;
            making->report->far++;
        }
    }
}

static struct tern_column_pair pool(const struct making *making)
{
    double examples = 0.0;
    double sum = 0.0;
    double squares = 0.0;
    for (uint32_t i = 0; i < making->count; i++) {
        examples += making->reported[i].weight;
        sum += making->reported[i].weight * making->reported[i].mean;
    }
    const double mean = sum / examples;
    for (uint32_t i = 0; i < making->count; i++) {
        squares += making->reported[i].weight * square_about(&making->reported[i], mean);
    }
    const double deviation = tern_sqrt(squares / examples);
    return (struct tern_column_pair){
        .mean = (float)mean,
        .spread = deviation < (double)FLT_MAX ? (float)deviation : FLT_MAX,
    };
}

static void make_column(struct making *making, uint32_t column, uint8_t *scaling)
{
    read_column(making, column);
    if (making->count >= TERN_COLUMN_SCALING_ROBUST_FROM) {
        bound(making);
    }
    struct tern_column_pair pair = pool(making);
    if (!(pair.spread >= TERN_WIRE_DEVIATION_MIN)) {
        pair.spread = 1.0F;
        making->report->constant++;
    }
    tern_column_put(scaling, column, pair);
}

enum tern_result tern_column_scaling_make(const struct tern_column_part *parts, uint32_t count,
                                          uint32_t columns, uint8_t *scaling,
                                          struct tern_column_scaling_report *report)
{
    struct making making = {.parts = parts, .count = count, .report = report};
    *report = (struct tern_column_scaling_report){0};
    making.reported = calloc(count, sizeof making.reported[0]);
    making.sorted = calloc(count, sizeof making.sorted[0]);
    const bool taken = making.reported != NULL && making.sorted != NULL;
    if (taken) {
        weigh(&making);
    }
    for (uint32_t i = 0; taken && i < columns; i++) {
        make_column(&making, i, scaling);
    }
    free(making.reported);
    free(making.sorted);
    return taken ? TERN_OK : TERN_ERR_NO_MEMORY;
}
