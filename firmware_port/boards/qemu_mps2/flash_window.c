// Simulates a NOR flash chip with 4 KiB blocks at the start of the window: programming only clears bits, erasing sets all bits
// of a block. When QEMU is killed, its file has the bytes that a chip would have after a power cut.
#include "board.h"
#include "boards/qemu_mps2/mps2.h"

#include <string.h>

#define PROGRAM_UNIT 4u
#define PAGE 256u    // bytes that are programmed in a millisecond
#define ERASE_MS 32u // duration of erasing a block

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

static void busy_wait(uint32_t ms)
{
    const uint64_t until = tern_board_monotonic_ms() + ms;
    while (tern_board_monotonic_ms() < until) {
    }
}

// Programs the bytes one by one, in order, so that a power cut can occur between any two bytes.
static enum tern_result program_chip(void *ctx, uint32_t offset, const void *src, size_t len)
{
    static uint32_t programmed;
    (void)ctx;
    const uint8_t *from = src;
    volatile uint8_t *to = chip() + offset;
    for (size_t i = 0; i < len; i++) {
        to[i] = (uint8_t)(to[i] & from[i]);
        busy_wait(++programmed % PAGE == 0);
    }
    return TERN_OK;
}

static enum tern_result erase_chip(void *ctx, uint32_t offset)
{
    (void)ctx;
    volatile uint8_t *block = chip() + offset;
    for (size_t i = 0; i < FLASH_BLOCK; i++) {
        block[i] = 0xff;
        busy_wait(i % (FLASH_BLOCK / ERASE_MS) == 0);
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
