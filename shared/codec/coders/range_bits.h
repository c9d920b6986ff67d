// An adaptive binary range coder (Martin, "Range encoding", 1979) for range.c and uniform.c. Its interval has 64 bits, so that
// several decisions need only one renormalisation; a carry propagates into the bytes already written. Exactly one byte string is
// valid for a list of decisions. Pure; reentrant.
#ifndef TERN_RANGE_BITS_H
#define TERN_RANGE_BITS_H

#include "build.h"
#include "codec/coders/bits.h"

// --- Probabilities

#define TERN_RANGE_ONE 65536
#define TERN_RANGE_LEAST 512 // 2^-7: no decision takes more than 7 bits
#define TERN_RANGE_FIRST_WEIGHT 64
#define TERN_RANGE_LAST_WEIGHT 112
#define TERN_RANGE_WEIGHT_BITS 4 // of the weight's fraction

// The probability of a decision in one context.
struct tern_chance {
    uint16_t zero; // probability of 0, in 1 / TERN_RANGE_ONE
    // weight of the past, in 1 / 16: a decision moves `zero` by 1 / 2^weight towards 0 or 1
    uint16_t weight;
};

// Adapts a probability to a decision. ones: all bits set for a 1, none for a 0.
static inline void tern_chance_learn(struct tern_chance *chance, uint64_t ones)
{
    const uint32_t swing = TERN_RANGE_ONE - 2 * TERN_RANGE_LEAST;
    int32_t target = (int32_t)(TERN_RANGE_ONE - TERN_RANGE_LEAST - (swing & (uint32_t)ones));
    int32_t zero = chance->zero;
    // The shift rounds down, also negative numbers.
    zero += (target - zero) >> (chance->weight >> TERN_RANGE_WEIGHT_BITS);
    chance->zero = (uint16_t)zero;
    chance->weight = (uint16_t)(chance->weight + (chance->weight < TERN_RANGE_LAST_WEIGHT));
}

// Small builds renormalise byte by byte and branch on the decision. The results are the same, the code is shorter, and processors
// without speculative execution are no slower.

// Returns whether the interval has room for another byte.
static inline bool tern_range_is_narrow(uint64_t range)
{
    return range >> 56 == 0;
}

// Returns the shift that renormalises the interval, a multiple of 8: the range becomes at least 2^56.
static inline unsigned tern_range_shift(uint64_t range)
{
    return (unsigned)__builtin_clzll(range) & 56u;
}

// --- Writing

// Call tern_range_make_room() before decisions narrow the range by more than 40 bits.
struct tern_range_writer {
    uint64_t low;
    uint64_t range;
    uint64_t carry; // not 0: low exceeded 2^64
    uint8_t *at;
};

static inline struct tern_range_writer tern_range_write(uint8_t *dst)
{
    return (struct tern_range_writer){.range = UINT64_MAX, .at = dst};
}

static inline void tern_range_store(struct tern_range_writer *writer)
{
    if (writer->carry != 0) {
        uint8_t *byte = writer->at;
        do {
            ++*--byte;
        } while (*byte == 0);
        writer->carry = 0;
    }
    tern_bits_store_big(writer->at, writer->low);
}

static inline void tern_range_make_room(struct tern_range_writer *writer)
{
    tern_range_store(writer);
    if (TERN_SMALL) {
        for (; tern_range_is_narrow(writer->range); writer->range <<= 8) {
            writer->low <<= 8;
            writer->at++;
        }
        return;
    }
    unsigned shift = tern_range_shift(writer->range);
    writer->at += shift / 8;
    writer->low <<= shift;
    writer->range <<= shift;
}

static inline void tern_range_advance(struct tern_range_writer *writer, uint64_t by)
{
    writer->low += by;
    writer->carry |= writer->low < by;
}

// Codes a decision; `zero` is the probability of a 0. ones: all bits set for a 1, none for a 0.
static inline void tern_range_narrow(struct tern_range_writer *writer, uint32_t zero, uint64_t ones)
{
    uint64_t split = (writer->range >> 16) * zero;
    if (TERN_SMALL) {
        if (ones != 0) {
            tern_range_advance(writer, split);
            split = writer->range - split;
        }
        writer->range = split;
        return;
    }
    tern_range_advance(writer, split & ones);
    writer->range = split + ((writer->range - 2 * split) & ones);
}

static inline void tern_range_put(struct tern_range_writer *writer, struct tern_chance *chance,
                                  unsigned bit)
{
    uint64_t ones = 0 - (uint64_t)bit;
    tern_range_narrow(writer, chance->zero, ones);
    tern_chance_learn(chance, ones);
}

// Writes the last bytes and returns the end of the string.
uint8_t *tern_range_finish(struct tern_range_writer *writer);

// --- Reading

struct tern_range_reader {
    uint64_t code; // the value of the bytes, relative to the low end of the interval
    uint64_t range;
    const uint8_t *src;
    size_t len;
    size_t at; // bytes read, including zeros past the end
};

struct tern_range_reader tern_range_read(const uint8_t *src, size_t len);

static inline uint8_t tern_range_byte(const struct tern_range_reader *reader, size_t at)
{
    return at < reader->len ? reader->src[at] : 0;
}

// Returns the eight bytes from `at` on as a number.
static inline uint64_t tern_range_window(const struct tern_range_reader *reader, size_t at)
{
    if (!TERN_SMALL && at + 8 <= reader->len) {
        return tern_bits_load_big(reader->src + at);
    }
    uint64_t window = 0;
    for (size_t i = 0; i < 8; i++) {
        window = window << 8 | tern_range_byte(reader, at + i);
    }
    return window;
}

static inline void tern_range_refill(struct tern_range_reader *reader)
{
    if (TERN_SMALL) {
        for (; tern_range_is_narrow(reader->range); reader->range <<= 8) {
            reader->code = reader->code << 8 | tern_range_byte(reader, reader->at++);
        }
        return;
    }
    unsigned shift = tern_range_shift(reader->range);
    uint64_t window = tern_range_window(reader, reader->at);
    reader->code = reader->code << shift | window >> 1 >> (63 - shift);
    reader->range <<= shift;
    reader->at += shift / 8;
}

// Decodes a decision; `zero` is the probability of a 0. Returns all bits set for a 1, none for a 0.
static inline uint64_t tern_range_get(struct tern_range_reader *reader, uint32_t zero)
{
    uint64_t split = (reader->range >> 16) * zero;
    uint64_t rest = reader->range - split;
    if (TERN_SMALL) {
        const bool is_one = reader->code >= split;
        reader->code -= is_one ? split : 0;
        reader->range = is_one ? rest : split;
        return 0 - (uint64_t)is_one;
    }
    uint64_t zeros = 0 - (uint64_t)(reader->code < split);
    reader->code = reader->code - split + (split & zeros);
    reader->range = rest ^ ((rest ^ split) & zeros);
    return ~zeros;
}

// Whether the reader has passed the end of any valid string, which includes at least one of the last eight bytes read.
static inline bool tern_range_past_end(const struct tern_range_reader *reader)
{
    return reader->at - 8 >= reader->len;
}

// Whether the string ends as tern_range_finish() writes it. *end: its length.
bool tern_range_end(const struct tern_range_reader *reader, size_t *end);

#endif
