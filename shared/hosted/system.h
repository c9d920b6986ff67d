// Clocks and random bytes of the operating system. Any thread.
#ifndef TERN_HOSTED_SYSTEM_H
#define TERN_HOSTED_SYSTEM_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>
#include <time.h>

// Milliseconds since an arbitrary start; never decreases.
static inline uint64_t tern_monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

// Milliseconds since 1970 of the wall clock, which people and time servers may set.
static inline uint64_t tern_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

// Seconds of the clock of tern_monotonic_ms().
static inline double tern_monotonic_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Nanoseconds of processor time that the calling thread has used, however busy the machine is.
static inline uint64_t tern_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Fills dst with random bytes for secrets. May wait at boot until the system has entropy. TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_random_fill(void *dst, size_t len);

#endif
