#include "fleet/virtual_clock.h"

static double real_ms(const struct tern_virtual_clock *clock)
{
    return (double)clock->real.monotonic_ms(clock->real.ctx);
}

static double shown_ms(const struct tern_virtual_clock *clock)
{
    return clock->training ? clock->frozen_ms : real_ms(clock) + clock->ahead_ms;
}

static uint64_t monotonic_ms(void *ctx)
{
    return (uint64_t)shown_ms(ctx);
}

static uint64_t unix_seconds(void *ctx)
{
    const struct tern_virtual_clock *clock = ctx;
    return clock->real.unix_seconds(clock->real.ctx);
}

struct tern_clock tern_virtual_clock_port(struct tern_virtual_clock *clock)
{
    return clock->speed > 0 ? (struct tern_clock){.ctx = clock,
                                                  .monotonic_ms = monotonic_ms,
                                                  .unix_seconds = unix_seconds}
                            : clock->real;
}

void tern_virtual_clock_begin(struct tern_virtual_clock *clock)
{
    if (clock->speed > 0) {
        clock->frozen_ms = shown_ms(clock);
        clock->training = true;
    }
}

void tern_virtual_clock_step(struct tern_virtual_clock *clock)
{
    if (clock->training) {
        clock->frozen_ms += 1000 / clock->speed;
    }
}

// A device that is faster than this machine would show a time in the past: the clock starts behind the real one.
void tern_virtual_clock_end(struct tern_virtual_clock *clock)
{
    if (clock->training) {
        clock->ahead_ms = clock->frozen_ms - real_ms(clock);
        clock->training = false;
    }
}
