#include "downloads/fit.h"

#include "util/math.h"
#include <stdlib.h>
#include <string.h>

// Magnitudes are counted in bins of 1/32 octave: a float's exponent and the first bits of its mantissa.
#define BIN_SHIFT 18
#define BINS (1u << (31 - BIN_SHIFT))

// Number of shares of values that are tried; they form a geometric series that ends at 1.
#define SHARES 112
#define SHARE_RATIO 1.1

#define MILLION 1000000u

struct bin {
    double sum; // sum of the magnitudes
    uint32_t count;
};

struct curve {
    struct bin bins[BINS]; // of one segment
    double shares[SHARES]; // ascending
    double left
        [SHARES]; // squared norm that each share leaves unsent, summed over the segments added so far
};

// Fills the bins, and returns the squared norm.
static double fill_bins(struct bin *bins, const float *values, uint32_t count)
{
    double squares = 0.0;
    memset(bins, 0, BINS * sizeof bins[0]);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bits = tern_float_bits(values[i]) & 0x7fffffffu;
        const double magnitude = (double)tern_bits_float(bits);
        struct bin *bin = &bins[bits >> BIN_SHIFT];
        bin->sum += magnitude;
        bin->count++;
        squares += magnitude * magnitude;
    }
    return squares;
}

// Adds what each share leaves of a segment. The k largest values, sent as their mean magnitude, take (sum of the k)^2 /
// k off the squared norm. Values within a bin count as equal.
static void add_segment(struct curve *curve, const float *values, uint32_t count, uint32_t least)
{
    const double squares = fill_bins(curve->bins, values, count);
    uint32_t bin = BINS;
    double sum = 0.0; // sum of the bins from `bin` on
    uint64_t sent = 0;
    for (uint32_t i = 0; i < SHARES; i++) {
        double wanted = curve->shares[i] * (double)count;
        wanted = wanted < (double)least ? (double)least : wanted;
        wanted = wanted > (double)count ? (double)count : wanted;
        while (bin > 0 && (double)(sent + curve->bins[bin - 1].count) <= wanted) {
            bin--;
            sent += curve->bins[bin].count;
            sum += curve->bins[bin].sum;
        }
        double largest = sum;
        if (bin > 0) {
            const struct bin *part = &curve->bins[bin - 1];
            largest += part->sum / (double)part->count * (wanted - (double)sent);
        }
        curve->left[i] += wanted > 0.0 ? squares - largest * largest / wanted : squares;
    }
}

// Rounds up, so that at least this share of the values is sent.
static uint32_t to_millionths(double share)
{
    const uint32_t rounded = (uint32_t)(share * MILLION) + 1;
    return rounded < MILLION ? rounded : MILLION;
}

// Interpolates between two shares of the series: returns the share at which the line through their points meets `left`. The
// true curve is convex, so it lies below the line, and the returned share leaves at most `left`.
static double share_between(const struct curve *curve, uint32_t at, double left)
{
    if (at == 0 || curve->left[at - 1] <= curve->left[at]) {
        return curve->shares[at];
    }
    const double part = (curve->left[at - 1] - left) / (curve->left[at - 1] - curve->left[at]);
    return curve->shares[at - 1] + part * (curve->shares[at] - curve->shares[at - 1]);
}

static void read_curve(const struct curve *curve, double left, struct tern_fit *fit)
{
    uint32_t best = 0;
    *fit = (struct tern_fit){0};
    for (uint32_t i = 0; i < SHARES; i++) {
        if (fit->share == 0 && curve->left[i] <= left) {
            fit->share = to_millionths(share_between(curve, i, left));
        }
        best = curve->left[i] < curve->left[best] ? i : best;
    }
    fit->best = to_millionths(curve->shares[best]);
}

enum tern_result tern_fit_share(const struct tern_model *model, const float *difference,
                                double left, uint32_t least, struct tern_fit *fit)
{
    struct curve *curve = calloc(1, sizeof *curve);
    if (curve == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    curve->shares[SHARES - 1] = 1.0;
    for (uint32_t i = SHARES - 1; i > 0; i--) {
        curve->shares[i - 1] = curve->shares[i] / SHARE_RATIO;
    }
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct tern_segment *segment = &model->segments[i];
        if (tern_segment_is_coded(segment)) {
            add_segment(curve, difference + segment->offset, segment->count, least);
        }
    }
    read_curve(curve, left, fit);
    free(curve);
    return TERN_OK;
}
