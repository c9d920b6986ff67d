#include "rounds/rate.h"

#include <string.h>

enum tern_result tern_rate_schedule_from_name(const char *name, enum tern_rate_schedule *schedule)
{
    if (strcmp(name, "constant") == 0) {
        *schedule = TERN_RATE_CONSTANT;
        return TERN_OK;
    }
    if (strcmp(name, "cosine") == 0) {
        *schedule = TERN_RATE_COSINE;
        return TERN_OK;
    }
    return TERN_ERR_UNKNOWN;
}

// cos(pi * t) for 0 <= t <= 1 by its Taylor series, folded to t <= 1/2, where twelve
// terms reach double precision. Plain operations only, so that every machine agrees.
static double cos_pi(double t)
{
    const double pi = 3.14159265358979323846;
    if (t > 0.5) {
        return -cos_pi(1.0 - t);
    }
    double x2 = pi * t * (pi * t);
    double term = 1.0;
    double sum = 1.0;
    for (int k = 1; k <= 12; k++) {
        term = -term * x2 / (double)((2 * k - 1) * (2 * k));
        sum += term;
    }
    return sum;
}

float tern_rate_for(enum tern_rate_schedule schedule, float first, float last, uint32_t round,
                    uint32_t rounds)
{
    if (schedule == TERN_RATE_CONSTANT || rounds <= 1 || round <= 1) {
        return first;
    }
    if (round >= rounds) {
        return last;
    }
    double t = (double)(round - 1) / (double)(rounds - 1);
    double share = 0.5 * (1.0 + cos_pi(t));
    return (float)((double)last + ((double)first - (double)last) * share);
}
