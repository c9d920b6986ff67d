#include "firmware/ram_flash.h"
#include "tests/asserts.h"

#include <string.h>

#define BLOCK 4096u

static uint8_t random_byte(struct ram_flash *flash)
{
    flash->random = flash->random * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(flash->random >> 33);
}

// Whether the power goes now.
static bool loses_power(struct ram_flash *flash)
{
    flash->power_off = ++flash->work == flash->cut_at;
    return flash->power_off;
}

// The power goes: every bit that would have changed does or does not.
static void tear(struct ram_flash *flash, uint32_t at, uint8_t to)
{
    uint8_t *byte = &flash->bytes[at];
    const uint8_t done = flash->cut == CUT_TORN    ? random_byte(flash)
                         : flash->cut == CUT_AFTER ? 0xff
                                                   : 0;
    *byte = (uint8_t)((*byte & ~done) | (to & done));
}

static enum tern_result read_bytes(void *ctx, uint32_t offset, void *dst, size_t len)
{
    struct ram_flash *flash = ctx;
    assert_true(offset <= RAM_FLASH_SIZE && len <= RAM_FLASH_SIZE - offset);
    if (flash->power_off) {
        return TERN_ERR_IO;
    }
    memcpy(dst, flash->bytes + offset, len);
    return TERN_OK;
}

static bool reads_as_erased(const struct ram_flash *flash, uint32_t at)
{
    bool erased = true;
    for (uint32_t i = 0; i < flash->port.program_size; i++) {
        erased = erased && flash->bytes[at + i] == 0xff;
    }
    return erased;
}

static enum tern_result program_unit(struct ram_flash *flash, uint32_t at, const uint8_t *src)
{
    assert_true(flash->erased[at]);
    flash->erased[at] = false;
    if (!loses_power(flash)) {
        memcpy(flash->bytes + at, src, flash->port.program_size);
        return TERN_OK;
    }
    for (uint32_t i = 0; i < flash->port.program_size; i++) {
        tear(flash, at + i, src[i]);
    }
    flash->erased[at] = reads_as_erased(flash, at);
    return TERN_ERR_IO;
}

static enum tern_result program(void *ctx, uint32_t offset, const void *src, size_t len)
{
    struct ram_flash *flash = ctx;
    const uint32_t unit = flash->port.program_size;
    assert_true(offset <= RAM_FLASH_SIZE && len <= RAM_FLASH_SIZE - offset);
    assert_true(offset % unit == 0 && len % unit == 0);
    for (uint32_t i = 0; i < len; i += unit) {
        if (flash->power_off) {
            return TERN_ERR_IO;
        }
        TERN_TRY(program_unit(flash, offset + i, (const uint8_t *)src + i));
    }
    return TERN_OK;
}

static enum tern_result erase(void *ctx, uint32_t offset)
{
    struct ram_flash *flash = ctx;
    assert_true(offset < RAM_FLASH_SIZE && offset % BLOCK == 0);
    if (flash->power_off) {
        return TERN_ERR_IO;
    }
    flash->wear[offset / BLOCK]++;
    if (!loses_power(flash)) {
        memset(flash->bytes + offset, 0xff, BLOCK);
        memset(flash->erased + offset, true, BLOCK);
        return TERN_OK;
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        tear(flash, offset + i, 0xff);
        flash->erased[offset + i] = false;
    }
    return TERN_ERR_IO;
}

void ram_flash_init(struct ram_flash *flash, uint32_t program_size, uint8_t filled_with)
{
    memset(flash, 0, sizeof *flash);
    memset(flash->bytes, filled_with, sizeof flash->bytes);
    flash->random = 7;
    flash->port = (struct tern_flash){
        .ctx = flash,
        .size = RAM_FLASH_SIZE,
        .block_size = BLOCK,
        .program_size = program_size,
        .read = read_bytes,
        .program = program,
        .erase = erase,
    };
}

void ram_flash_power_on(struct ram_flash *flash)
{
    flash->power_off = false;
    flash->cut_at = 0;
}

uint32_t ram_flash_wear(const struct ram_flash *flash)
{
    uint32_t most = 0;
    for (size_t i = 0; i < sizeof flash->wear / sizeof flash->wear[0]; i++) {
        most = flash->wear[i] > most ? flash->wear[i] : most;
    }
    return most;
}
