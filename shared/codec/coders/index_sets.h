// Encodes sets of indices for sparse payloads: the number of indices, then the gaps between them in a Golomb-Rice code
// (docs/FORMAT.md, "Index sets"). Internal to shared/codec.
#ifndef TERN_INDEX_SETS_H
#define TERN_INDEX_SETS_H

#include "result.h"
#include "util/bytes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Writing

// Returns the size limit of a set of indices below count, in bytes.
size_t tern_index_set_bound(size_t count);

struct tern_index_writer {
    uint8_t *dst;
    uint64_t held; // `bits` bits that are not yet written
    unsigned bits;
    unsigned parameter; // of the Rice code
    size_t next;        // lowest index that may follow
};

// Starts a set of `members` indices below count, at dst.
struct tern_index_writer tern_index_set_begin(uint8_t *dst, size_t count, size_t members);

// Adds an index above those before it.
void tern_index_set_add(struct tern_index_writer *writer, size_t index);

// Returns the end of the set.
uint8_t *tern_index_set_end(struct tern_index_writer *writer);

// --- Reading

// A set after its header was read.
struct tern_index_set {
    size_t members;     // 1 to count
    size_t count;       // all indices are below
    unsigned parameter; // of the Rice code
    const uint8_t *gaps;
    size_t gaps_len;
    const uint8_t *values; // the bytes after the set: value_bytes for each member
};

// Reads the header of a set that is followed by value_bytes for each member and nothing else. Returns false if the lengths do
// not fit.
TERN_MUST_USE bool tern_index_set_open(const uint8_t *src, size_t len, size_t value_bytes,
                                       size_t count, struct tern_index_set *set);

// Checks all gaps of an opened set: indices are below count, all bytes are used, and the padding is zero.
// TERN_ERR_CORRUPT
TERN_MUST_USE enum tern_result tern_index_set_check(const struct tern_index_set *set);

// Reads the indices of a set in order.
struct tern_index_reader {
    const struct tern_index_set *set;
    size_t bit;  // position in the gaps
    size_t next; // lowest index that may follow
};

#define TERN_NO_INDEX SIZE_MAX

// Returns at least 57 bits from a position on; bits past the end are 0.
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

// Returns the next index, or TERN_NO_INDEX if it is not below count.
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
    // Without this check the shift below could lose bits.
    if (quotient > (set->count - reader->next) >> set->parameter) {
        return TERN_NO_INDEX;
    }
    // The window contains the low part, too, unless there are many zeros.
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
