// Run-codes 64 bytes at a time, by a mask of the zero bytes (TERN_TERNARY_ZERO). Included once for each instruction set, which
// defines
//   TERN_KERNEL    storage class and target attribute of functions
//   zeros_of  uint64_t zeros_of(const uint8_t bytes[64]): bit i is set if byte i is TERN_TERNARY_ZERO
#ifndef TERN_ZERO_RUN_LOOPS_H
#define TERN_ZERO_RUN_LOOPS_H

#include "codec/kernels/kernels.h"

#include <string.h>

enum { MASK_BITS = 64 };

// A chunk is the bytes of one code: a byte that is not zero, or up to 14 zeros.
struct chunks {
    uint64_t first; // bit i: byte i is the first of a chunk
    uint64_t last;  // bit i: byte i is the last of a chunk
    size_t used;    // number of bytes in complete chunks
};

// Finds the chunks of `len` bytes, 1 <= len <= 64. The first byte starts a chunk, and a run is cut every 14 bytes. Bits of
// `zeros` from `len` on are 0.
static inline struct chunks find_chunks(uint64_t zeros, size_t len)
{
    uint64_t pairs = zeros & zeros << 1;
    uint64_t fours = pairs & pairs << 2;
    uint64_t eights = fours & fours << 4;
    uint64_t inside =
        eights & eights << (TERN_RUN_MAX + 1 - 8); // this byte and the 14 before it are zeros
    uint64_t first = ~pairs;
    for (unsigned cut = 0; cut < MASK_BITS / TERN_RUN_MAX; cut++) {
        first |= first << TERN_RUN_MAX & inside;
    }
    uint64_t real = ~0ull >> (MASK_BITS - len);
    return (struct chunks){
        .first = first & real,
        .last = (first >> 1 | 1ull << (MASK_BITS - 1)) & real,
        .used = len,
    };
}

// Removes the last chunk of 64 bytes if it is a run of zeros that the next bytes may continue.
static inline struct chunks leave_open_chunk(struct chunks chunks, uint64_t zeros)
{
    size_t start = (size_t)(MASK_BITS - 1 - __builtin_clzll(chunks.first));
    _Bool open = zeros >> (MASK_BITS - 1) != 0 && MASK_BITS - start < TERN_RUN_MAX;
    uint64_t before = (1ull << start) - 1;
    return open ? (struct chunks){chunks.first & before, chunks.last & before, start} : chunks;
}

// Returns the number of leading bytes that are whole blocks of 64 zeros.
TERN_KERNEL size_t zero_blocks(const uint8_t *bytes, size_t len)
{
    size_t zeros = 0;
    while (len - zeros >= MASK_BITS && zeros_of(bytes + zeros) == ~0ull) {
        zeros += MASK_BITS;
    }
    return zeros;
}

// Writes the codes of the chunks and returns their number. Works in place, because no code is written beyond the first byte of
// its chunk.
TERN_KERNEL size_t write_chunks(struct chunks chunks, const uint8_t *bytes, uint8_t *out)
{
    size_t written = 0;
    for (; chunks.first != 0; chunks.first &= chunks.first - 1, chunks.last &= chunks.last - 1) {
        unsigned first = (unsigned)__builtin_ctzll(chunks.first);
        unsigned more = (unsigned)__builtin_ctzll(chunks.last) - first;
        unsigned raise = more > 0 ? TERN_TERNARY_LIMIT - TERN_TERNARY_ZERO - 1 + more : 0;
        out[written++] = (uint8_t)(bytes[first] + raise);
    }
    return written;
}

// Writes the codes of the full runs in *zeros bytes, and reduces *zeros to a multiple of a full run.
static size_t write_full_runs(uint8_t *out, size_t *zeros)
{
    size_t runs = *zeros / TERN_RUN_MAX;
    *zeros = runs * TERN_RUN_MAX;
    memset(out, TERN_TERNARY_LIMIT - 2 + TERN_RUN_MAX, runs);
    return runs;
}

TERN_KERNEL size_t run_encode(uint8_t *bytes, size_t len)
{
    size_t written = 0;
    size_t i = 0;
    while (len - i >= MASK_BITS) {
        uint64_t zeros = zeros_of(bytes + i);
        if (zeros == 0) {
            uint8_t block[MASK_BITS];
            memcpy(block, bytes + i, MASK_BITS);
            memcpy(bytes + written, block, MASK_BITS);
            written += MASK_BITS;
            i += MASK_BITS;
            continue;
        }
        if (zeros == ~0ull) {
            size_t run = zero_blocks(bytes + i, len - i);
            written += write_full_runs(bytes + written, &run);
            i += run;
            continue;
        }
        struct chunks chunks = leave_open_chunk(find_chunks(zeros, MASK_BITS), zeros);
        written += write_chunks(chunks, bytes + i, bytes + written);
        i += chunks.used;
    }
    if (i < len) {
        uint8_t block[MASK_BITS] = {0};
        memcpy(block, bytes + i, len - i);
        written += write_chunks(find_chunks(zeros_of(block), len - i), block, bytes + written);
    }
    return written;
}

#endif
