// A NOR flash chip of 4 KiB blocks, as the PSRAM's first bytes: programming clears bits and nothing
// else, erasing sets a block's. A kill of QEMU leaves the file as the chip would be left.
#include "board.h"
#include "boards/qemu_mps2/window.h"

#include <string.h>

#define PROGRAM_UNIT 4u
#define PAGE 256u    // bytes that take a millisecond to program
#define ERASE_MS 32u // of one block

static uint8_t *chip(void)
{
    return (uint8_t *)WINDOW_BASE;
}

static enum tern_result read_chip(void *ctx, uint32_t offset, void *dst, size_t len)
{
    (void)ctx;
    memcpy(dst, chip() + offset, len);
    return TERN_OK;
}

static void take_ms(uint32_t ms)
{
    const uint64_t until = tern_board_monotonic_ms() + ms;
    while (tern_board_monotonic_ms() < until) {
    }
}

// Byte by byte, in order, and visible in the file as it happens: the power may go in between.
static enum tern_result program_chip(void *ctx, uint32_t offset, const void *src, size_t len)
{
    static uint32_t programmed;
    (void)ctx;
    const uint8_t *from = src;
    volatile uint8_t *to = chip() + offset;
    for (size_t i = 0; i < len; i++) {
        to[i] = (uint8_t)(to[i] & from[i]);
        take_ms(++programmed % PAGE == 0);
    }
    return TERN_OK;
}

static enum tern_result erase_chip(void *ctx, uint32_t offset)
{
    (void)ctx;
    volatile uint8_t *block = chip() + offset;
    for (size_t i = 0; i < FLASH_BLOCK; i++) {
        block[i] = 0xff;
        take_ms(i % (FLASH_BLOCK / ERASE_MS) == 0);
    }
    return TERN_OK;
}

const struct tern_flash *tern_board_flash(void)
{
    static const struct tern_flash flash = {
        .size = FLASH_SIZE,
        .block_size = FLASH_BLOCK,
        .program_size = PROGRAM_UNIT,
        .read = read_chip,
        .program = program_chip,
        .erase = erase_chip,
    };
    return &flash;
}
