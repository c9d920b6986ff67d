// The interface to a region of NOR flash: read anywhere, program erased bytes, erase whole blocks. Boards implement it; tests
// implement it in RAM, where they can cut the power between any two programmed units. One caller at a time.
#ifndef TERN_FLASH_H
#define TERN_FLASH_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct tern_flash {
    void *ctx;
    uint32_t size;         // bytes of the region, a multiple of block_size
    uint32_t block_size;   // bytes that one erase sets to 0xff
    uint32_t program_size; // size of an aligned unit of programming, in bytes; a power of two

    // Each function returns TERN_ERR_IO if the flash reports a failure. Offsets and lengths stay inside the region. program()
    // gets multiples of program_size, which were erased before and are never programmed twice; src may be unaligned. After a
    // power cut, reading an unfinished unit must return some bytes and not fault. A unit of 0xff bytes counts as erased.
    TERN_MUST_USE enum tern_result (*read)(void *ctx, uint32_t offset, void *dst, size_t len);
    TERN_MUST_USE enum tern_result (*program)(void *ctx, uint32_t offset, const void *src,
                                              size_t len);
    TERN_MUST_USE enum tern_result (*erase)(void *ctx, uint32_t offset); // the block at offset
};

#endif
