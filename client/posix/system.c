#define _GNU_SOURCE
#include "posix/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define FIRST_BELIEVABLE_DATE 1577836800u // 2020-01-01: boards without a battery boot in 1970

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
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
    uint8_t *at = dst;
    while (len > 0) {
        const ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno != EINTR) {
            return TERN_ERR_IO;
        }
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
    return TERN_OK;
}

struct tern_entropy tern_posix_entropy(void)
{
    return (struct tern_entropy){.fill = fill};
}

// --- Conditions
// --------------------------------------------------------------------------------------

// Reads a short file below dir/name, without its newline; "" when it cannot be read.
static void read_word(const char *dir, const char *name, const char *file, char *word, size_t size)
{
    char path[512];
    word[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s/%s", dir, name, file) >= (int)sizeof path) {
        return;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    const ssize_t got = read(fd, word, size - 1);
    close(fd);
    word[got > 0 ? got : 0] = '\0';
    word[strcspn(word, "\n")] = '\0';
}

// POWER_MAINS as soon as one supply that is not a battery is online, POWER_BATTERY when there is a
// battery and no such supply.
static int power_of(const char *dir)
{
    DIR *supplies = opendir(dir);
    if (supplies == NULL) {
        return 0;
    }
    int power = 0;
    const struct dirent *entry = NULL;
    while (power != 2 && (entry = readdir(supplies)) != NULL) {
        char type[16];
        char online[4];
        read_word(dir, entry->d_name, "type", type, sizeof type);
        read_word(dir, entry->d_name, "online", online, sizeof online);
        if (strcmp(type, "Battery") == 0) {
            power = 1;
        } else if (strcmp(online, "1") == 0) {
            power = 2;
        }
    }
    closedir(supplies);
    return power;
}

static uint32_t memory_kib(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    static const char key[] = "MemAvailable:";
    char line[128];
    unsigned long kib = 0;
    while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, sizeof key - 1) == 0) {
            kib = strtoul(line + sizeof key - 1, NULL, 10);
        }
    }
    fclose(file);
    return kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX;
}

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    const struct tern_posix_conditions *conditions = ctx;
    const char *power_dir =
        conditions->power_dir != NULL ? conditions->power_dir : "/sys/class/power_supply";
    const char *memory_file =
        conditions->memory_file != NULL ? conditions->memory_file : "/proc/meminfo";
    now->metered = conditions->metered;
    now->power = power_of(power_dir);
    now->memory_kib = memory_kib(memory_file);
    if (conditions->only_on_mains && now->power == 1) {
        *why = "the machine runs on battery";
        return false;
    }
    return true;
}

struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions)
{
    return (struct tern_condition_port){.ctx = conditions, .may_work = may_work};
}
