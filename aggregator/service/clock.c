#include "service/internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

// Less is a clock that is kept in time, not one that was set.
#define STEP_MIN_MS 1000

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

uint64_t tern_service_machine_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

uint64_t tern_service_monotonic(const struct tern_service *service)
{
    uint64_t (*monotonic_ms)(void) = service->config.monotonic_ms;
    return monotonic_ms != NULL ? monotonic_ms() : read_ms(CLOCK_BOOTTIME);
}

struct tern_service_clock tern_service_read_clock(const struct tern_service *service)
{
    return (struct tern_service_clock){tern_service_now(service), tern_service_monotonic(service)};
}

int64_t tern_service_clock_step(const struct tern_service_clock *before,
                                const struct tern_service_clock *now)
{
    const int64_t step =
        (int64_t)(now->day_ms - before->day_ms) - (int64_t)(now->steady_ms - before->steady_ms);
    return step > STEP_MIN_MS || step < -STEP_MIN_MS ? step : 0;
}

// --- From one run of the program to the next

// Empty where there is none: it is then like no other.
static void read_boot(const struct tern_service *service, char *boot, size_t size)
{
    if (service->config.boot != NULL) {
        snprintf(boot, size, "%s", service->config.boot);
        return;
    }
    FILE *file = fopen(BOOT_ID_FILE, "r");
    boot[0] = '\0';
    if (file != NULL) {
        boot[fread(boot, 1, size - 1, file)] = '\0';
        boot[strcspn(boot, "\n")] = '\0';
        fclose(file);
    }
}

// Whether monotonic time has gone on since.
static bool is_same_boot(const struct tern_db_federation *stored, const char *boot,
                         uint64_t steady_ms)
{
    return boot[0] != '\0' && strcmp(stored->clock_boot, boot) == 0 &&
           stored->clock_steady_ms <= steady_ms;
}

enum tern_result tern_service_load_clock(struct tern_service *service, uint64_t *then_ms)
{
    const struct tern_service_clock now = tern_service_read_clock(service);
    struct tern_db_federation stored;
    char boot[sizeof stored.clock_boot];
    uint64_t latest_ms;
    TERN_TRY(tern_db_federation(service->db, &stored));
    TERN_TRY(tern_db_latest_ms(service->db, &latest_ms));
    read_boot(service, boot, sizeof boot);
    service->clock_is_stored = is_same_boot(&stored, boot, now.steady_ms);
    if (service->clock_is_stored) {
        service->clock.day_ms = stored.clock_day_ms;
        service->clock.steady_ms = stored.clock_steady_ms;
    } else { // only that time cannot have gone back
        service->clock.day_ms = now.day_ms > latest_ms ? now.day_ms : latest_ms;
        service->clock.steady_ms = now.steady_ms;
    }
    *then_ms = now.day_ms - (uint64_t)tern_service_clock_step(&service->clock, &now);
    return TERN_OK;
}

enum tern_result tern_service_store_clock(struct tern_service *service,
                                          const struct tern_service_clock *clock)
{
    struct tern_db_federation row = {.clock_day_ms = clock->day_ms,
                                     .clock_steady_ms = clock->steady_ms};
    read_boot(service, row.clock_boot, sizeof row.clock_boot);
    return tern_db_set_clock(service->db, &row);
}
