#include "secure/gaussian.h"
#include <stdbool.h>

// Twice the natural logarithm of 2 * 2^27 * 2^40, rounded up: a sample beyond t has a probability below 2 exp(-t^2 / (2 variance)).
#define BOUND_FACTOR 95u

uint64_t tern_integer_root(uint64_t square)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 30; bit > 0; bit >>= 1) {
        const uint64_t larger = root + bit;
        if (larger * larger <= square) {
            root = larger;
        }
    }
    return root;
}

uint64_t tern_gaussian_bound(uint64_t variance)
{
    return variance == 0 ? 0 : tern_integer_root(BOUND_FACTOR * variance) + 1;
}

void tern_gaussian_start(struct tern_gaussian *gaussian, uint64_t variance,
                         enum tern_result (*fill)(void *dst, size_t size))
{
    *gaussian = (struct tern_gaussian){
        .variance = variance, .scale = tern_integer_root(variance) + 1, .fill = fill};
}

static enum tern_result next_word(struct tern_gaussian *gaussian, uint64_t *word)
{
    const uint32_t words = sizeof gaussian->pool / sizeof gaussian->pool[0];
    if (gaussian->left == 0) {
        TERN_TRY(gaussian->fill(gaussian->pool, sizeof gaussian->pool));
        gaussian->left = words;
    }
    *word = gaussian->pool[words - gaussian->left];
    gaussian->left--;
    return TERN_OK;
}

// Draws a number from 0 to limit - 1. limit: > 0.
static enum tern_result draw_below(struct tern_gaussian *gaussian, uint64_t limit, uint64_t *number)
{
    const uint64_t excess = (UINT64_MAX % limit + 1) % limit; // 2^64 modulo the limit
    do {
        TERN_TRY(next_word(gaussian, number));
    } while (*number > UINT64_MAX - excess);
    *number %= limit;
    return TERN_OK;
}

// Draws true with the probability part / whole. part: at most `whole`.
static enum tern_result draw_fraction(struct tern_gaussian *gaussian, uint64_t part, uint64_t whole,
                                      bool *drawn)
{
    uint64_t number = 0;
    TERN_TRY(draw_below(gaussian, whole, &number));
    *drawn = number < part;
    return TERN_OK;
}

// Draws true with the probability exp(-part / whole). part: at most `whole` (algorithm 1).
static enum tern_result draw_exp_of_fraction(struct tern_gaussian *gaussian, uint64_t part,
                                             uint64_t whole, bool *drawn)
{
    uint64_t count = 0;
    bool more = true;
    while (more) {
        count++;
        TERN_TRY(draw_fraction(gaussian, part, whole, &more));
        if (more) {
            TERN_TRY(draw_fraction(gaussian, 1, count, &more));
        }
    }
    *drawn = count % 2 == 1;
    return TERN_OK;
}

// Draws true with the probability exp(-part / whole).
static enum tern_result draw_exp(struct tern_gaussian *gaussian, uint64_t part, uint64_t whole,
                                 bool *drawn)
{
    *drawn = true;
    for (; *drawn && part > whole; part -= whole) {
        TERN_TRY(draw_exp_of_fraction(gaussian, 1, 1, drawn));
    }
    return *drawn ? draw_exp_of_fraction(gaussian, part, whole, drawn) : TERN_OK;
}

// Draws the magnitude of a discrete Laplace sample: proportional to exp(-magnitude / scale) (algorithm 2).
static enum tern_result draw_magnitude(struct tern_gaussian *gaussian, uint64_t *magnitude)
{
    uint64_t low = 0;
    uint64_t high = 0;
    bool drawn = false;
    while (!drawn) {
        TERN_TRY(draw_below(gaussian, gaussian->scale, &low));
        TERN_TRY(draw_exp_of_fraction(gaussian, low, gaussian->scale, &drawn));
    }
    for (;;) {
        TERN_TRY(draw_exp_of_fraction(gaussian, 1, 1, &drawn));
        if (!drawn) {
            break;
        }
        high++;
    }
    *magnitude = low + gaussian->scale * high;
    return TERN_OK;
}

// Whether to accept a Laplace sample of this magnitude (algorithm 3): with the probability exp(-(magnitude - variance / scale)^2 /
// (2 variance)), as a fraction of integers.
static enum tern_result accept(struct tern_gaussian *gaussian, uint64_t magnitude, bool *accepted)
{
    const uint64_t scale = gaussian->scale;
    const uint64_t far = magnitude * scale;
    const uint64_t distance =
        far > gaussian->variance ? far - gaussian->variance : gaussian->variance - far;
    if (magnitude > UINT32_MAX / scale || distance > UINT32_MAX) {
        *accepted = false; // the exact probability is below 2^-1000, and the square would not fit
        return TERN_OK;
    }
    return draw_exp(gaussian, distance * distance, 2 * gaussian->variance * scale * scale,
                    accepted);
}

enum tern_result tern_gaussian_next(struct tern_gaussian *gaussian, int64_t *sample)
{
    for (;;) {
        uint64_t magnitude = 0;
        bool negative = false;
        bool accepted = false;
        TERN_TRY(draw_magnitude(gaussian, &magnitude));
        TERN_TRY(draw_fraction(gaussian, 1, 2, &negative));
        if (negative && magnitude == 0) {
            continue; // 0 would be twice as likely
        }
        TERN_TRY(accept(gaussian, magnitude, &accepted));
        if (accepted) {
            *sample = negative ? -(int64_t)magnitude : (int64_t)magnitude;
            return TERN_OK;
        }
    }
}
