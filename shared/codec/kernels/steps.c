#include "codec/kernels/steps.h"

#include "codec/kernels/kernels.h"
#include "codec/kernels/lanes.h"
#include "codec/kernels/levels.h"

// Returns the index of value i in a sample of one value out of each `stride`. The offset within the
// stride follows the golden ratio: a fixed one would see only some columns of a matrix.
static size_t sample_index(size_t i, size_t stride)
{
    uint64_t part = (uint32_t)i * (uint32_t)2654435769u;
    return i * stride + (size_t)(part * stride >> 32);
}

struct lanes {
    double product[TERN_SUM_LANES];
    double square[TERN_SUM_LANES];
};

static inline void add(struct lanes *lanes, size_t lane, float value, float step)
{
    float magnitude = tern_bits_float(tern_float_bits(value) & ~TERN_SIGN_BIT);
    double steps = tern_steps_of(magnitude, step);
    lanes->product[lane] += (double)magnitude * steps;
    lanes->square[lane] += steps * steps;
}

static struct lanes add_all(const float *values, size_t count, float step)
{
    struct lanes lanes = {.product = {0}};
    size_t i = 0;
    for (; count - i >= TERN_SUM_LANES; i += TERN_SUM_LANES) {
        for (size_t lane = 0; lane < TERN_SUM_LANES; lane++) {
            add(&lanes, lane, values[i + lane], step);
        }
    }
    for (size_t lane = 0; i + lane < count; lane++) {
        add(&lanes, lane, values[i + lane], step);
    }
    return lanes;
}

struct tern_step_sums tern_kernel_step_sums(const float *values, size_t count, size_t stride,
                                            float step)
{
    struct lanes lanes = {.product = {0}};
    if (stride == 1) {
        lanes = add_all(values, count, step);
    } else {
        for (size_t i = 0; i < count / stride; i++) {
            add(&lanes, i % TERN_SUM_LANES, values[sample_index(i, stride)], step);
        }
    }
    return (struct tern_step_sums){tern_sum_of_lanes(lanes.product),
                                   tern_sum_of_lanes(lanes.square)};
}

double tern_kernel_square_sum(const float *values, size_t count, size_t stride)
{
    if (stride == 1) {
        return tern_kernel_sum_square(values, count);
    }
    double lanes[TERN_SUM_LANES] = {0};
    for (size_t i = 0; i < count / stride; i++) {
        double value = (double)values[sample_index(i, stride)];
        lanes[i % TERN_SUM_LANES] += value * value;
    }
    return tern_sum_of_lanes(lanes);
}
