// The inner loops of steps.c, in plain C for the vectoriser. Included once for each instruction set; for KERNEL and
// NAME see dense_loops.h.
#ifndef TERN_STEPS_LOOPS_H
#define TERN_STEPS_LOOPS_H

#include "codec/kernels/paths.h"

KERNEL struct tern_step_sums NAME(step_sums)(const float *values, size_t count,
                                             struct tern_units units, uint32_t rate)
{
    struct tern_step_sums sums = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        float magnitude = tern_bits_float(tern_float_bits(values[i]) & ~TERN_SIGN_BIT);
        // Signed conversions, which SSE2 has.
        uint32_t whole = (uint32_t)(int32_t)(magnitude * units.first * units.second);
        uint32_t steps = tern_steps_of(whole, rate);
        sums.total += (uint64_t)whole * whole >> TERN_STEP_TOTAL_SHIFT;
        sums.product += (uint64_t)whole * steps;
        sums.square += (uint64_t)steps * steps;
    }
    return sums;
}

KERNEL void NAME(step_split)(float *values, size_t count, struct tern_step_split split,
                             int16_t *steps)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        float magnitude = tern_bits_float(bits & ~TERN_SIGN_BIT);
        uint32_t whole = (uint32_t)(int32_t)(magnitude * split.units.first * split.units.second);
        int32_t unsigned_steps = (int32_t)tern_steps_of(whole, split.rate);
        int32_t sign = -(int32_t)(bits >> 31);
        int32_t signed_steps = (unsigned_steps ^ sign) - sign;
        steps[i] = (int16_t)signed_steps;
        values[i] -= (float)signed_steps * split.scale; // of 0 steps +0, which changes no value
    }
}

KERNEL void NAME(steps_add)(const int16_t *steps, size_t count, float scale, float weight,
                            float *acc)
{
    for (size_t i = 0; i < count; i++) {
        float sum = acc[i] + weight * ((float)steps[i] * scale);
        // Chosen by bits: gcc would make a branch of anything else.
        uint32_t kept = steps[i] != 0 ? 0 : ~0u;
        acc[i] = tern_bits_float((tern_float_bits(acc[i]) & kept) | (tern_float_bits(sum) & ~kept));
    }
}

KERNEL struct tern_step_facts NAME(steps_facts)(const int16_t *steps, size_t count)
{
    struct tern_step_facts facts = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = (uint32_t)(steps[i] < 0 ? -steps[i] : steps[i]);
        facts.nonzero += magnitude > 0;
        facts.square += magnitude * magnitude;
        facts.most = magnitude > facts.most ? magnitude : facts.most;
    }
    return facts;
}

#endif
