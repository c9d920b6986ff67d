// A region of NOR flash as the flash store sees it: read anywhere, program erased bytes, erase
// whole blocks. Boards implement it, and tests over plain memory, where the power can be cut
// between any two programmed units. One caller at a time.
#ifndef TERN_FLASH_H
#define TERN_FLASH_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct tern_flash {
    void *ctx;
    uint32_t size;         // bytes of the region, a multiple of block_size
    uint32_t block_size;   // bytes that one erase sets to 0xff
    uint32_t program_size; // programming is done in aligned units of so many bytes; a power of two

    // Each returns TERN_ERR_IO when the device says that it failed. Offsets and lengths stay inside
    // the region; program's are multiples of program_size, its units were erased before and are
    // never programmed twice, and src need not be aligned. What a power cut left half done reads as
    // any bytes, but it reads: a controller that faults on them must be told not to. A unit that
    // reads as 0xff throughout counts as erased.
    TERN_MUST_USE enum tern_result (*read)(void *ctx, uint32_t offset, void *dst, size_t len);
    TERN_MUST_USE enum tern_result (*program)(void *ctx, uint32_t offset, const void *src,
                                              size_t len);
    TERN_MUST_USE enum tern_result (*erase)(void *ctx, uint32_t offset); // the block there
};

#endif
