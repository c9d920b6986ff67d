// Deadline: as many local steps as a client's measured speed fits into its share of the window.
#include "rounds/policies.h"

uint32_t tern_policy_deadline(const struct tern_steps_settings *settings,
                              const struct tern_steps_facts *facts, bool only,
                              struct tern_steps_plan *plan)
{
    struct tern_reason *reason = &plan->reason;
    tern_reason_policy(reason, "deadline");
    // Also false for NaN, which a file may hold that took over what clients claimed.
    if (!(facts->steps_per_second > 0.0F)) {
        tern_reason_text(reason, "speed not known yet");
        return UINT32_MAX;
    }
    double seconds = (double)facts->window_ms / 1000.0;
    double fit = (double)facts->steps_per_second * seconds * settings->fraction;
    tern_reason_real(reason, (double)facts->steps_per_second);
    tern_reason_text(reason, " steps/s x ");
    tern_reason_real(reason, seconds);
    tern_reason_text(reason, " s x ");
    tern_reason_real(reason, settings->fraction);
    if (!only && fit >= (double)plan->local_steps) {
        tern_reason_text(reason, ", all fit");
        return fit < (double)settings->max_steps ? (uint32_t)fit : settings->max_steps;
    }
    plan->local_steps = tern_policy_bound(settings, fit, reason);
    return plan->local_steps;
}
