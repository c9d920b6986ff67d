#include "tern_zephyr.h"

#include <zephyr/kernel.h>
#include <zephyr/storage/flash_map.h>
#if __has_include(<zephyr/random/random.h>)
#include <zephyr/random/random.h>
#else // Zephyr 3.4
#include <zephyr/random/rand32.h>
#endif

// --- Flash

static enum tern_result result_of(int error)
{
    return error == 0 ? TERN_OK : TERN_ERR_IO;
}

static enum tern_result read_flash(void *ctx, uint32_t offset, void *dst, size_t len)
{
    const struct tern_zephyr_area *area = ctx;
    return result_of(flash_area_read(area->area, (off_t)offset, dst, len));
}

static enum tern_result program_flash(void *ctx, uint32_t offset, const void *src, size_t len)
{
    const struct tern_zephyr_area *area = ctx;
    return result_of(flash_area_write(area->area, (off_t)offset, src, len));
}

static enum tern_result erase_flash(void *ctx, uint32_t offset)
{
    const struct tern_zephyr_area *area = ctx;
    return result_of(flash_area_erase(area->area, (off_t)offset, area->block_size));
}

enum tern_result tern_zephyr_flash(struct tern_flash *flash, struct tern_zephyr_area *area,
                                   uint8_t id, uint32_t block_size, uint32_t program_size)
{
    if (flash_area_open(id, &area->area) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    area->block_size = block_size;
    *flash = (struct tern_flash){
        .ctx = area,
        .size = (uint32_t)area->area->fa_size,
        .block_size = block_size,
        .program_size = program_size,
        .read = read_flash,
        .program = program_flash,
        .erase = erase_flash,
    };
    return TERN_OK;
}

// --- Clock and entropy

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    return (uint64_t)k_uptime_get();
}

static uint64_t never_known(void *ctx)
{
    (void)ctx;
    return 0;
}

struct tern_clock tern_zephyr_clock(uint64_t (*unix_seconds)(void *ctx))
{
    return (struct tern_clock){.monotonic_ms = monotonic_ms,
                               .unix_seconds = unix_seconds != NULL ? unix_seconds : never_known};
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    (void)ctx;
    return result_of(sys_csrand_get(dst, len));
}

struct tern_entropy tern_zephyr_entropy(void)
{
    return (struct tern_entropy){.fill = fill};
}
