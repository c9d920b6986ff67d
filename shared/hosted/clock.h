// Time that passes evenly, from a start that means nothing. Any thread.
#ifndef TERN_HOSTED_CLOCK_H
#define TERN_HOSTED_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tern_monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

// Of the calendar, which somebody may set; since 1970.
static inline uint64_t tern_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static inline double tern_monotonic_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
