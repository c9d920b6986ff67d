// Variance: a trigger in the manner of FDA (Theologitis et al., Communication-Efficient Distributed
// Deep Learning via Federated Dynamic Averaging, 2024, section 3), whose workers synchronise when
// the variance of their models passes a threshold theta. Tern's clients cannot be asked while they
// train, so the variance that rounds ended with foretells when it would have been: the drift of one
// from another grows like H, its square like H^2, and the next interval's H is
// H sqrt(theta / variance), at most twice as many and at least half as many as before.
#include "rounds/policies.h"

#include <math.h>

float tern_steps_variance(double mean_square, double norm_of_mean, uint32_t updates)
{
    double variance = mean_square - norm_of_mean * norm_of_mean;
    if (updates < 2 || !isfinite(variance) || variance < 0.0 || variance > 1e30) {
        return 0.0F;
    }
    return (float)variance;
}

void tern_variance_interval(struct tern_steps_course *course,
                            const struct tern_steps_settings *settings, double variance,
                            double steps)
{
    if (course->theta == 0.0) {
        course->theta = variance; // what the configured H came to
        return;
    }
    double factor = sqrt(course->theta / variance);
    factor = factor < 2.0 ? factor : 2.0;
    factor = factor > 0.5 ? factor : 0.5;
    double drift = steps * factor;
    double least = (double)settings->min_steps;
    double most = (double)settings->max_steps;
    drift = drift > least ? drift : least;
    course->drift = drift < most ? drift : most;
}

void tern_policy_variance(const struct tern_steps_settings *settings,
                          const struct tern_steps_course *course, struct tern_steps_plan *plan)
{
    struct tern_reason *reason = &plan->reason;
    tern_reason_policy(reason, "variance");
    if (course->theta == 0.0) {
        tern_reason_text(reason, "no threshold yet");
        return;
    }
    tern_reason_text(reason, "drift reaches the threshold");
    plan->local_steps = tern_policy_bound(settings, course->drift, reason);
}
