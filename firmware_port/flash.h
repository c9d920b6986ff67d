// The interface to a region of NOR flash, in which any bytes can be read, erased bytes can be programmed, and blocks can be
// erased. Boards implement it. Tests implement it in RAM and simulate power cuts between any two programmed units. One caller
// at a time.
#ifndef TERN_FLASH_H
#define TERN_FLASH_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct tern_flash {
    void *ctx;           // passed to each function
    uint32_t size;       // bytes of the region, a multiple of block_size
    uint32_t block_size; // bytes that one erase sets to 0xff
    // bytes of a unit of programming, which starts at a multiple of program_size; a power of two
    uint32_t program_size;

    // Callers pass only offsets and lengths inside the region, and to program() multiples of program_size. They program a unit
    // at most once after it was erased; src may have any alignment. After a power cut during program() or erase(), read() of
    // the affected bytes must return, with any contents, and must not fault. Each function returns TERN_ERR_IO if the flash
    // fails.
    TERN_MUST_USE enum tern_result (*read)(void *ctx, uint32_t offset, void *dst, size_t len);
    TERN_MUST_USE enum tern_result (*program)(void *ctx, uint32_t offset, const void *src,
                                              size_t len);
    TERN_MUST_USE enum tern_result (*erase)(void *ctx,
                                            uint32_t offset); // erases the block at offset
};

#endif
