#define _GNU_SOURCE
#include "posix/system.h"

#include "hosted/system.h"

#define FIRST_BELIEVABLE_DATE 1577836800u // 2020-01-01: boards without a battery boot in 1970

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    return tern_monotonic_ms();
}

static uint64_t unix_seconds(void *ctx)
{
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec >= (time_t)FIRST_BELIEVABLE_DATE ? (uint64_t)now.tv_sec : 0;
}

struct tern_clock tern_posix_clock(void)
{
    return (struct tern_clock){.monotonic_ms = monotonic_ms, .unix_seconds = unix_seconds};
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    (void)ctx;
    return tern_random_fill(dst, len);
}

struct tern_entropy tern_posix_entropy(void)
{
    return (struct tern_entropy){.fill = fill};
}
