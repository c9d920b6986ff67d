#include "rounds/speed.h"

#include <stdbool.h>

// A known speed counts like a round of as many steps. False for what a client may have made up, in
// a file that took over what clients claimed: NaN, infinity, or a speed at which this would take
// more than a year.
static bool start_from(struct tern_steps_done *done, float known, float steps)
{
    float ms = steps * 1000.0F / known;
    if (!(known > 0.0F) || !(ms > 0.0F && ms < 3e10F)) {
        return false;
    }
    *done = (struct tern_steps_done){steps, ms};
    return true;
}

float tern_steps_speed(struct tern_steps_done *done, float known, uint32_t local_steps,
                       uint32_t train_ms)
{
    float steps = (float)local_steps;
    float ms = train_ms == 0 ? 0.5F : (float)train_ms;
    if (local_steps == 0) {
        return known;
    }
    if (done->ms > 0.0F || start_from(done, known, steps)) {
        steps = done->steps * 0.7F + steps * 0.3F;
        ms = done->ms * 0.7F + ms * 0.3F;
    }
    *done = (struct tern_steps_done){steps, ms};
    return steps * 1000.0F / ms;
}
