// A device's own time: training takes what its speed says, everything else what it really takes,
// and the clock never goes back.
#include "fleet/virtual_clock.h"
#include "tests/cases.h"

static uint64_t real_now;

static uint64_t real_ms(void *ctx)
{
    (void)ctx;
    return real_now;
}

static uint64_t real_date(void *ctx)
{
    (void)ctx;
    return 1700000000;
}

static struct tern_virtual_clock clock_of(double speed)
{
    real_now = 5000;
    return (struct tern_virtual_clock){.real = {.monotonic_ms = real_ms, .unix_seconds = real_date},
                                       .speed = speed};
}

static uint64_t train(struct tern_virtual_clock *clock, uint32_t steps, uint64_t really_ms)
{
    const struct tern_clock port = tern_virtual_clock_port(clock);
    tern_virtual_clock_begin(clock);
    const uint64_t start = port.monotonic_ms(port.ctx);
    for (uint32_t i = 0; i < steps; i++) {
        tern_virtual_clock_step(clock);
    }
    real_now += really_ms;
    const uint64_t took = port.monotonic_ms(port.ctx) - start;
    tern_virtual_clock_end(clock);
    return took;
}

CASE(training_takes_what_the_device_takes)
{
    struct tern_virtual_clock slow = clock_of(4);
    assert_int_equal(train(&slow, 20, 7), 5000);
    struct tern_virtual_clock fast = clock_of(10000);
    assert_int_equal(train(&fast, 20, 7000), 2);
}

CASE(everything_else_takes_its_real_time)
{
    struct tern_virtual_clock clock = clock_of(4);
    const struct tern_clock port = tern_virtual_clock_port(&clock);
    assert_int_equal(port.monotonic_ms(port.ctx), 5000);
    (void)train(&clock, 8, 10);
    assert_int_equal(port.monotonic_ms(port.ctx), 7000);
    real_now += 30;
    assert_int_equal(port.monotonic_ms(port.ctx), 7030);
    assert_int_equal(port.unix_seconds(port.ctx), 1700000000);
}

CASE(it_never_goes_back)
{
    struct tern_virtual_clock clock = clock_of(1000);
    const struct tern_clock port = tern_virtual_clock_port(&clock);
    uint64_t last = port.monotonic_ms(port.ctx);
    for (int i = 0; i < 20; i++) {
        (void)train(&clock, 3, i % 2 == 0 ? 500 : 0);
        assert_true(port.monotonic_ms(port.ctx) >= last);
        last = port.monotonic_ms(port.ctx);
    }
    tern_virtual_clock_end(&clock); // nothing is under way
    assert_int_equal(port.monotonic_ms(port.ctx), last);
}

CASE(without_a_speed_it_is_the_real_clock)
{
    struct tern_virtual_clock clock = clock_of(0);
    assert_int_equal(train(&clock, 20, 7), 7);
}
