#include "rounds/variance.h"

#include <math.h>

float tern_round_variance(double mean_square, double norm_of_mean, uint32_t updates)
{
    double variance = mean_square - norm_of_mean * norm_of_mean;
    if (updates < 2 || !isfinite(variance) || variance < 0.0 || variance > 1e30) {
        return 0.0F;
    }
    return (float)variance;
}
