#include "service/internal.h"

#include <time.h>

static uint64_t read_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t tern_service_now(const struct tern_service *service)
{
    uint64_t (*now_ms)(void) = service->config.now_ms;
    return now_ms != NULL ? now_ms() : read_ms(CLOCK_REALTIME);
}

uint64_t tern_service_monotonic(const struct tern_service *service)
{
    uint64_t (*monotonic_ms)(void) = service->config.monotonic_ms;
    return monotonic_ms != NULL ? monotonic_ms() : read_ms(CLOCK_MONOTONIC);
}
