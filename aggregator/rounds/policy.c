// What every policy ends with: bounds that all but fixed keep to.
#include "rounds/policies.h"

uint32_t tern_policy_bound(const struct tern_steps_settings *settings, double steps,
                           struct tern_reason *reason)
{
    if (!(steps >= (double)settings->min_steps)) {
        tern_reason_text(reason, ", at least ");
        tern_reason_integer(reason, settings->min_steps);
        return settings->min_steps;
    }
    if (steps > (double)settings->max_steps) {
        tern_reason_text(reason, ", at most ");
        tern_reason_integer(reason, settings->max_steps);
        return settings->max_steps;
    }
    return (uint32_t)steps;
}
