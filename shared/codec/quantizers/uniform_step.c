#include "codec/quantizers/uniform_step.h"

#include <stdbool.h>

enum {
    SAMPLE = 1024,      // minimum size of a sample; it has less than twice as many values
    PASSES = 16,        // most passes over a part of the values
    HALVINGS = 6,       // the first passes over the sample, which halve the range
    GUESSES = 12,       // until this pass, the slope predicts the next place
    OCTAVE = 1 << 12,   // number of places in an octave
    FINEST_OCTAVES = 8, // the finest step is so many octaves below the largest magnitude
    CREEP =
        OCTAVE / 256, // first distance of a search downwards, which doubles until a step is good
};

// Fractions of the error bound: each pass aims at AIM, and the search ends with a step between GOOD and the bound.
#define AIM 0.998
#define GOOD 0.996

// Largest ratio of the scale to the least-squares scale. It keeps |t - decoded|^2 below |t|^2 for any error, so that error feedback
// converges.
#define GAIN_MOST 1.5

// With small steps, the unsent fraction grows fourfold per octave. This is the number of places in which it grows e-fold.
#define FIRST_SLOPE (OCTAVE / 1.3862944)

// --- Steps to try

// A place is the index of a step: octaves, each divided evenly.
static uint32_t units_at(uint32_t place)
{
    return (OCTAVE + place % OCTAVE) << place / OCTAVE;
}

// units >= OCTAVE.
static uint32_t place_of(uint32_t units)
{
    uint32_t octave = 0;
    while (units >> octave >= 2 * OCTAVE) {
        octave++;
    }
    return octave * OCTAVE + ((units >> octave) - OCTAVE);
}

static uint32_t units_of(float peak)
{
    return (uint32_t)((double)peak / tern_step_unit(peak));
}

// The largest magnitude is TERN_STEP_MOST finest steps. No step is below the smallest float32: its scale would be 0.
static uint32_t finest_place(float peak)
{
    uint32_t place = place_of(units_of(peak)) - FINEST_OCTAVES * OCTAVE;
    while ((double)units_at(place) * tern_step_unit(peak) < 0x1p-149) {
        place += OCTAVE;
    }
    return place;
}

// The largest magnitude rounds to one step of 1.625 times it.
static uint32_t coarsest_place(float peak)
{
    const uint32_t units = units_of(peak);
    return place_of(units + units / 2 + units / 8);
}

struct part {
    const float *values;
    size_t count;
    size_t stride;
    float peak; // largest magnitude of all values
};

// A step and its result on a part of the values.
struct trial {
    uint32_t place;
    struct tern_steps rule;
    double total; // sums of squares and products, in units
    double product;
    double square;
    double left; // fraction of the squared norm that the least-squares scale leaves
};

static struct trial try_step(const struct part *part, uint32_t place)
{
    struct trial trial = {
        .place = place, .rule = {part->peak, tern_step_rate(units_at(place))}, .left = 1};
    const struct tern_step_sums sums =
        tern_steps_sum(part->values, part->count, part->stride, trial.rule);
    trial.total = (double)sums.total * (1 << TERN_STEP_TOTAL_SHIFT);
    trial.product = (double)sums.product;
    trial.square = (double)sums.square;
    if (sums.square > 0) {
        trial.left = (trial.total - trial.product * trial.product / trial.square) / trial.total;
    }
    return trial;
}

// --- The search

// The range of places: `low` counts as good, `high` as too coarse.
struct search {
    double error;
    uint32_t low;
    uint32_t high;
    double slope; // number of places in which the unsent fraction grows e-fold
};

static uint32_t middle_of(const struct search *search)
{
    return search->low + (search->high - search->low) / 2;
}

// Returns the place to try after `last`: the one that the slope predicts, if it is in the range. Otherwise it goes down by doubling
// distances until a step is good, and then halves the range.
static uint32_t next_place(const struct search *search, const struct trial *last, int pass,
                           bool found)
{
    const double off = (AIM * search->error - last->left) / last->left;
    const double next = (double)last->place + off * search->slope;
    if (pass < GUESSES && next > (double)search->low && next < (double)search->high) {
        return (uint32_t)next;
    }
    const uint32_t down = (uint32_t)CREEP << pass;
    if (!found && search->high - search->low > down) {
        return search->high - down;
    }
    return middle_of(search);
}

static void learn_slope(struct search *search, const struct trial *a, const struct trial *b)
{
    search->slope = a->left * ((double)b->place - (double)a->place) / (b->left - a->left);
}

// Returns the coarsest good step that it has tried, or the last one if none is good.
static struct trial seek(struct search *search, const struct part *part, uint32_t place,
                         int halvings)
{
    struct trial best = {.left = 2};
    struct trial last = best;
    for (int pass = 0; pass < PASSES; pass++) {
        const struct trial before = last;
        last = try_step(part, place);
        const bool good = last.left <= search->error;
        best = good ? last : best;
        *(good ? &search->low : &search->high) = place;
        if ((good && last.left >= GOOD * search->error) || search->high - search->low <= 1) {
            break;
        }
        if (pass > halvings) {
            learn_slope(search, &last, &before);
        }
        place = pass < halvings ? middle_of(search)
                                : next_place(search, &last, pass, best.left <= search->error);
    }
    return best.left <= search->error ? best : last;
}

static struct trial find(const struct part *all, double error)
{
    const struct search first = {error, finest_place(all->peak), coarsest_place(all->peak),
                                 FIRST_SLOPE};
    struct search search = first;
    struct part sample = *all;
    sample.stride = all->count < 2 * SAMPLE ? 1 : all->count / SAMPLE;
    struct trial found = seek(&search, &sample, middle_of(&search), HALVINGS);
    if (sample.stride > 1) {
        search = first;
        found = seek(&search, all, found.place, 0);
    }
    return found.left <= error ? found : try_step(all, first.low);
}

// Returns the scale at which the inner product of the decoded values with t equals that of t with
// itself, limited by GAIN_MOST.
static float scale_of(const struct trial *trial, float peak)
{
    const double whole = trial->total / trial->product;
    const double most = GAIN_MOST * trial->product / trial->square;
    return (float)((whole < most ? whole : most) * tern_step_unit(peak));
}

struct tern_uniform_step tern_uniform_step(const float *values, size_t count, float peak,
                                           double error)
{
    const struct part all = {values, count, 1, peak};
    const struct trial found = find(&all, error);
    return (struct tern_uniform_step){found.rule, scale_of(&found, peak)};
}
