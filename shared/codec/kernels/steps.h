// Rounds values to whole multiples of one step, for the codec `uniform`. A magnitude is first rounded down to whole units of
// 2^-23 of the peak's power of two, so that the largest magnitude, `peak`, has 2^23 to 2^24 - 1 units. All sums are of whole
// numbers and have the same bits on every machine (docs/FORMAT.md, section 3.8). Pure; reentrant.
#ifndef TERN_STEPS_H
#define TERN_STEPS_H

#include <stddef.h>
#include <stdint.h>

#define TERN_STEP_UNIT_BITS 23
#define TERN_STEP_RATE_BITS 40
#define TERN_STEP_TOTAL_SHIFT 15
#define TERN_STEP_FINEST 32768u // size of the smallest step, in units
#define TERN_STEP_MOST 256      // most steps of a magnitude

// The size of a step. A magnitude of u units has floor(u * rate / 2^40 + 0.4) steps, so that less than 0.6 steps become 0.
struct tern_steps {
    float peak;    // largest magnitude of all values; not 0
    uint32_t rate; // 2^40 / units of a step, which has at least TERN_STEP_FINEST units
};

// Returns the rate for a step of so many units.
static inline uint32_t tern_step_rate(uint32_t units)
{
    return (uint32_t)(((uint64_t)1 << TERN_STEP_RATE_BITS) / units);
}

// Sums over values, each with u units and k steps.
struct tern_step_sums {
    uint64_t total;   // sum of u * u / 2^15, each rounded down
    uint64_t product; // sum of u * k
    uint64_t square;  // sum of k * k
};

// Returns the sums over a sample with one of every `stride` values; stride 1: over all. count and stride < 2^32.
struct tern_step_sums tern_steps_sum(const float *values, size_t count, size_t stride,
                                     struct tern_steps rule);

// Returns the size of a unit.
double tern_step_unit(float peak);

// Sets steps[i] to the steps of value i, with its sign, and leaves the residual error, value - steps[i] * scale, in values.
void tern_steps_split(float *values, size_t count, struct tern_steps rule, float scale,
                      int16_t *steps);

// Adds weight * (steps * scale) to acc where steps is not 0.
void tern_kernel_steps_add(const int16_t *steps, size_t count, float scale, float weight,
                           float *acc);

struct tern_step_facts {
    uint32_t nonzero;
    uint32_t square; // sum of the squares
    uint32_t most;   // largest magnitude
};

// Describes steps. count * (largest magnitude)^2 must be below 2^32.
struct tern_step_facts tern_kernel_steps_facts(const int16_t *steps, size_t count);

#endif
