#include "codec/kernels/steps.h"

#include "codec/kernels/paths.h"

// Returns the index of value i of a sample, one in each `stride` values. The golden ratio spreads the offsets within the stride;
// a fixed offset would see only some columns of a matrix.
static size_t sample_index(size_t i, size_t stride)
{
    uint64_t part = (uint32_t)i * (uint32_t)2654435769u;
    return i * stride + (size_t)(part * stride >> 32);
}

static void add(struct tern_step_sums *sums, const struct tern_step_sums *part)
{
    sums->total += part->total;
    sums->product += part->product;
    sums->square += part->square;
}

static struct tern_units units_of(float peak)
{
    return tern_units_of(tern_exponent_of(peak), TERN_STEP_UNIT_BITS);
}

struct tern_step_sums tern_steps_sum(const float *values, size_t count, size_t stride,
                                     struct tern_steps rule)
{
    enum { BLOCK = TERN_SMALL ? 16 : 64 };
    const struct tern_units units = units_of(rule.peak);
    if (stride == 1) {
        return tern_kernel_step_sums(values, count, units, rule.rate);
    }
    struct tern_step_sums sums = {0, 0, 0};
    float block[BLOCK];
    for (size_t first = 0; first < count / stride; first += BLOCK) {
        size_t here = tern_smaller(count / stride - first, BLOCK);
        for (size_t i = 0; i < here; i++) {
            block[i] = values[sample_index(first + i, stride)];
        }
        const struct tern_step_sums part = tern_kernel_step_sums(block, here, units, rule.rate);
        add(&sums, &part);
    }
    return sums;
}

double tern_step_unit(float peak)
{
    return tern_double_power(tern_exponent_of(peak) - TERN_STEP_UNIT_BITS);
}

void tern_steps_split(float *values, size_t count, struct tern_steps rule, float scale,
                      int16_t *steps)
{
    const struct tern_step_split split = {units_of(rule.peak), rule.rate, scale};
    tern_kernel_step_split(values, count, split, steps);
}
