// The run coder of instruction sets without a compression of bytes: visits one chunk after the
// other. Included after zero_run_masks.h, with the same macros.
#ifndef TERN_ZERO_RUN_WALK_H
#define TERN_ZERO_RUN_WALK_H

#include "codec/kernels/zero_run_masks.h"

#include <string.h>

// Writes the codes of the chunks; returns how many. In place: no code comes to lie behind the first
// byte of its chunk.
KERNEL size_t write_chunks(struct chunks chunks, const uint8_t *bytes, uint8_t *out)
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

// Writes the codes of whole blocks of zeros, and leaves what is less than a full run.
static size_t write_full_runs(uint8_t *out, size_t *zeros)
{
    size_t runs = *zeros / TERN_RUN_MAX;
    *zeros = runs * TERN_RUN_MAX;
    memset(out, TERN_TERNARY_LIMIT - 2 + TERN_RUN_MAX, runs);
    return runs;
}

KERNEL size_t run_encode(uint8_t *bytes, size_t len)
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
