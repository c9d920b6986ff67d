#include "rounds/rate.h"

#include <stddef.h>
#include <string.h>

#define RATE_MIN 1e-9f // the setting's minimum

static const char *const names[] = {"constant", "cosine", "step", "plateau"};

enum tern_result tern_rate_schedule_from_name(const char *name, enum tern_rate_schedule *schedule)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *schedule = (enum tern_rate_schedule)i;
            return TERN_OK;
        }
    }
    return TERN_ERR_UNKNOWN;
}

const char *tern_rate_schedule_names(void)
{
    return "constant | cosine | step | plateau";
}

// --- Decays

void tern_rate_opened(struct tern_rate_course *course, uint32_t decays)
{
    if (decays != course->decays) {
        course->decays = decays;
        course->since = 0;
    }
}

void tern_rate_committed(struct tern_rate_course *course)
{
    course->since++;
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Losses during the warm-up do not count.
static uint32_t plateau_decays(const struct tern_rate_policy *policy,
                               const struct tern_rate_course *course, uint32_t scheduled,
                               uint32_t since_lowest)
{
    const uint32_t since = least_of(least_of(course->since, since_lowest), scheduled);
    return course->decays + (since >= policy->decay_rounds);
}

uint32_t tern_rate_decays(const struct tern_rate_policy *policy,
                          const struct tern_rate_course *course, uint32_t committed,
                          uint32_t since_lowest)
{
    const uint32_t scheduled =
        committed > policy->warmup_rounds ? committed - policy->warmup_rounds : 0;
    switch (policy->schedule) {
    case TERN_RATE_STEP:
        return scheduled / policy->decay_rounds;
    case TERN_RATE_PLATEAU:
        return plateau_decays(policy, course, scheduled, since_lowest);
    case TERN_RATE_CONSTANT:
    case TERN_RATE_COSINE:
        break;
    }
    return 0;
}

// --- The rate

// Returns cos(pi * t) for 0 <= t <= 1 by its Taylor series, folded to t <= 1/2, where twelve terms reach double precision.
// Basic operations only: they give the same bits on every machine.
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

// Reaches the last rate one round after the end, so that the last round trains even where that rate is 0.
static float cosine(const struct tern_rate_policy *policy, uint32_t round, uint32_t rounds)
{
    if (rounds <= 1 || round <= 1) {
        return policy->first;
    }
    if (round > rounds) {
        return policy->last;
    }
    double t = (double)(round - 1) / (double)rounds;
    double share = 0.5 * (1.0 + cos_pi(t));
    return (float)((double)policy->last + ((double)policy->first - (double)policy->last) * share);
}

// Returns the decayed rate, at least `last` and above 0: with a rate of 0 a round would train nothing.
static float decayed(const struct tern_rate_policy *policy, uint32_t decays)
{
    double rate = (double)policy->first;
    const double least = policy->last > RATE_MIN ? (double)policy->last : (double)RATE_MIN;
    for (uint32_t i = 0; i < decays && rate > least; i++) {
        rate *= (double)policy->decay;
    }
    return (float)(rate > least ? rate : least);
}

float tern_rate_for(const struct tern_rate_policy *policy, uint32_t round, uint32_t rounds,
                    uint32_t decays)
{
    const uint32_t warmup = policy->warmup_rounds;
    if (round <= warmup) {
        return (float)((double)policy->first * (double)round / ((double)warmup + 1.0));
    }
    if (policy->schedule == TERN_RATE_COSINE) {
        return cosine(policy, round - warmup, rounds > warmup ? rounds - warmup : 0);
    }
    return decays > 0 ? decayed(policy, decays) : policy->first;
}
