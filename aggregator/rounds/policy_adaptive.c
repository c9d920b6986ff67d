// Adaptive: AdaComm (Wang, Joshi: Adaptive Communication Strategies to Achieve the Best
// Error-Runtime Trade-off in Local-Update SGD, SysML 2019, section 4). Many local steps are cheap
// while the loss is high, and their drift is what keeps it from falling later:
// tau = ceil(sqrt(F / F_0) tau_0), and gamma tau where that would not be fewer than before.
//
// The paper's intervals are of wall-clock time and F is measured on the data. Here they are
// committed rounds, F is the mean over them of the median of the clients' training losses, which no
// single client decides, and F_0 the median of the first round. tau_0 is a multiple of the usual steps,
// so that the rounds in all do about as many as under `fixed`: from tau_0 = local_steps they did a fifth
// of those (docs/BENCHMARKS.md, "Schedules on the suite").
#include "rounds/policies.h"

#include <math.h>

uint32_t tern_adaptive_start(const struct tern_steps_settings *settings)
{
    return (uint32_t)((double)settings->local_steps * settings->start);
}

// Not below half of the usual steps: rounds of one or two cost as many bytes and teach next to nothing.
static uint32_t fewest(const struct tern_steps_settings *settings)
{
    uint32_t half = (settings->local_steps + 1) / 2;
    return half > settings->min_steps ? half : settings->min_steps;
}

void tern_adaptive_interval(struct tern_steps_course *course,
                            const struct tern_steps_settings *settings, double loss)
{
    double tau = ceil(sqrt(loss / course->first_loss) * (double)tern_adaptive_start(settings));
    if (!(tau < (double)course->tau)) {
        tau = (double)course->tau * settings->gamma;
    }
    uint32_t least = fewest(settings);
    course->tau = tau > (double)least ? (uint32_t)tau : least;
}

void tern_policy_adaptive(const struct tern_steps_settings *settings,
                          const struct tern_steps_course *course, struct tern_steps_plan *plan)
{
    struct tern_reason *reason = &plan->reason;
    tern_reason_policy(reason, "adaptive");
    if (course->last_loss == 0.0) {
        tern_reason_text(reason, "no interval yet");
    } else {
        tern_reason_text(reason, "loss ");
        tern_reason_real(reason, course->last_loss);
        tern_reason_text(reason, " of ");
        tern_reason_real(reason, course->first_loss);
    }
    plan->local_steps = tern_policy_bound(settings, (double)course->tau, reason);
}
