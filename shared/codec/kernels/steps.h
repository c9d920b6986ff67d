// Magnitudes as whole multiples of one step, for `uniform`. A magnitude is first cut to whole units of 2^-23 of the
// peak's power of two, so that the largest one, `peak`, has 2^23 to 2^24 - 1 of them. All sums are of whole numbers
// and have the same bits on every machine (docs/FORMAT.md, section 3.8). Pure; reentrant.
#ifndef TERN_STEPS_H
#define TERN_STEPS_H

#include <stddef.h>
#include <stdint.h>

#define TERN_STEP_UNIT_BITS 23
#define TERN_STEP_RATE_BITS 40
#define TERN_STEP_TOTAL_SHIFT 15
#define TERN_STEP_FINEST 32768u // units of the smallest step
#define TERN_STEP_MOST 256      // steps of a magnitude, at most

// How values become steps. A magnitude of u units is floor(u * rate / 2^40 + 0.4) steps, so that one below 0.6 steps
// is 0.
struct tern_steps {
    float peak;    // largest magnitude of all values; not 0
    uint32_t rate; // 2^40 / step, of a step of TERN_STEP_FINEST units or more
};

// Returns the rate of a step of so many units.
static inline uint32_t tern_step_rate(uint32_t units)
{
    return (uint32_t)(((uint64_t)1 << TERN_STEP_RATE_BITS) / units);
}

// Sums over values of u units and k steps each.
struct tern_step_sums {
    uint64_t total;   // of u * u / 2^15, each rounded down
    uint64_t product; // of u * k
    uint64_t square;  // of k * k
};

// Sums over a sample of one value of each `stride`, or over all values. count and stride < 2^32.
struct tern_step_sums tern_steps_sum(const float *values, size_t count, size_t stride,
                                     struct tern_steps rule);

// Returns the value of a unit.
double tern_step_unit(float peak);

// Sets steps[i] to the value's steps, with its sign, and takes steps[i] * scale from the value.
void tern_steps_split(float *values, size_t count, struct tern_steps rule, float scale,
                      int16_t *steps);

// acc += weight * (steps * scale) where steps is not 0.
void tern_kernel_steps_add(const int16_t *steps, size_t count, float scale, float weight,
                           float *acc);

struct tern_step_facts {
    uint32_t nonzero;
    uint32_t square; // sum of the squares
    uint32_t most;   // largest magnitude
};

// count * (largest magnitude)^2 < 2^32.
struct tern_step_facts tern_kernel_steps_facts(const int16_t *steps, size_t count);

#endif
