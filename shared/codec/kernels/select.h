// Selection of the values of largest magnitude, for the quantizers that send a share of them.
// Exact: the same values on every platform, of equal magnitudes those of lower index. Pure;
// reentrant.
#ifndef TERN_SELECT_H
#define TERN_SELECT_H

#include <stddef.h>
#include <stdint.h>

// k = ceil(p * count), where p is the share that a spec string wrote with at most 6 decimals: whole
// numbers throughout, so that k does not depend on how p was rounded to float32. 0 < density <= 1.
size_t tern_select_count(float density, size_t count);

// The k values of largest magnitude, or all that are not 0 where those are fewer: magnitudes, as
// bits, above `bits`, and the first `ties` of exactly `bits`.
struct tern_selection {
    uint32_t bits;
    size_t ties;
    size_t selected; // values in all
};

// values are finite. 1 <= k <= count. Uses 2 KiB of stack (1 KiB where size_t has 32 bits).
struct tern_selection tern_kernel_select(const float *values, size_t count, size_t k);

// The same in about one pass over many values: a sample says between which magnitudes the k-th most
// likely lies, and those in between are sought alone. bytes: `len` of them, overwritten; room for
// count / 20 values is enough for most data, and the result does not depend on it.
struct tern_selection tern_kernel_select_in(const float *values, size_t count, size_t k,
                                            void *bytes, size_t len);

// Bit i % 64 of words[i / 64] is 1 for each value i that is selected; bits past count are 0.
void tern_kernel_select_mark(const float *values, size_t count, struct tern_selection selection,
                             uint64_t *words);

#endif
