// Sets of indices as bytes, for payloads that list some of a segment's values: how many there are,
// then the gaps between them under a Golomb-Rice code (docs/FORMAT.md, "Index sets"). Internal to
// shared/codec.
#ifndef TERN_INDEX_SETS_H
#define TERN_INDEX_SETS_H

#include "result.h"
#include "util/bytes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Writing

// The most bytes of a set of indices below count.
size_t tern_index_set_bound(size_t count);

struct tern_index_writer {
    uint8_t *dst;
    uint64_t held; // the low `bits` bits are not yet written
    unsigned bits;
    unsigned parameter; // of the Rice code
    size_t next;        // the least index that may follow
};

// Begins a set of `members` indices below count, at dst.
struct tern_index_writer tern_index_set_begin(uint8_t *dst, size_t count, size_t members);

// Adds an index above those before it.
void tern_index_set_add(struct tern_index_writer *writer, size_t index);

// Returns the end of the set.
uint8_t *tern_index_set_end(struct tern_index_writer *writer);

// --- Reading

// A set whose head was read.
struct tern_index_set {
    size_t members;     // 1 to count
    size_t count;       // indices are below
    unsigned parameter; // of the Rice code
    const uint8_t *gaps;
    size_t gaps_len;
    const uint8_t *values; // what follows: value_bytes for each member
};

// Reads the head of a set that is followed by value_bytes for each of its members and nothing
// else. False when that cannot be.
TERN_MUST_USE bool tern_index_set_open(const uint8_t *src, size_t len, size_t value_bytes,
                                       size_t count, struct tern_index_set *set);

// Reads all of an opened set: indices below count, all gap bytes used, zero padding.
// TERN_ERR_CORRUPT
TERN_MUST_USE enum tern_result tern_index_set_check(const struct tern_index_set *set);

// Walks a set.
struct tern_index_reader {
    const struct tern_index_set *set;
    size_t bit;  // of the gaps
    size_t next; // the least index that may follow
};

#define TERN_NO_INDEX SIZE_MAX

// 57 bits or more from a bit on; past the end they are 0.
static inline uint64_t tern_index_window(const struct tern_index_set *set, size_t bit)
{
    size_t byte = bit / 8;
    if (set->gaps_len >= 8 && byte <= set->gaps_len - 8) {
        return tern_load_le64(set->gaps + byte) >> bit % 8;
    }
    uint64_t window = 0;
    for (size_t i = 0; i < 8 && byte + i < set->gaps_len; i++) {
        window |= (uint64_t)set->gaps[byte + i] << 8 * i;
    }
    return window >> bit % 8;
}

// The next index, or TERN_NO_INDEX where it would not be below count.
static inline size_t tern_index_next(struct tern_index_reader *reader)
{
    enum { WINDOW = 57 };
    const struct tern_index_set *set = reader->set;
    size_t quotient = 0;
    uint64_t window = tern_index_window(set, reader->bit);
    for (; window == 0; window = tern_index_window(set, reader->bit)) {
        if (reader->bit / 8 >= set->gaps_len) {
            return TERN_NO_INDEX;
        }
        quotient += WINDOW;
        reader->bit += WINDOW;
    }
    unsigned zeros = (unsigned)__builtin_ctzll(window);
    quotient += zeros;
    reader->bit += zeros + 1;
    // Also keeps the shift below from losing bits.
    if (quotient > (set->count - reader->next) >> set->parameter) {
        return TERN_NO_INDEX;
    }
    // 57 bits hold both parts unless the zeros are many.
    uint64_t rest = zeros + 1 + set->parameter <= WINDOW ? window >> zeros >> 1
                                                         : tern_index_window(set, reader->bit);
    size_t gap = (quotient << set->parameter) + (size_t)(rest & ((1ull << set->parameter) - 1));
    reader->bit += set->parameter;
    if (gap >= set->count - reader->next) {
        return TERN_NO_INDEX;
    }
    size_t index = reader->next + gap;
    reader->next = index + 1;
    return index;
}

#endif
