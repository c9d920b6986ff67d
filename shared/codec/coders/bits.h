// Reads and writes bit strings for the entropy coders: the first bit is the lowest bit of the first byte, and a field starts
// with its lowest bit. The _back functions start at the last byte, so that two strings share a buffer without a length. Reading
// past the end gives zeros; tern_bits_end() detects it. Pure; reentrant.
#ifndef TERN_BITS_H
#define TERN_BITS_H

#include "build.h"
#include "util/bytes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_BITS_MAX 56  // most bits of one call
#define TERN_BITS_SLACK 8 // the writer may overwrite so many bytes after the last one

// Returns the number of bits that are 1. __builtin_popcountll() would need a library function on processors without the
// instruction.
static inline unsigned tern_bits_count(uint64_t value)
{
    value -= value >> 1 & 0x5555555555555555u;
    value = (value & 0x3333333333333333u) + (value >> 2 & 0x3333333333333333u);
    value = (value + (value >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(value * 0x0101010101010101u >> 56);
}

// Load and store a word with the most significant byte first.
static inline uint64_t tern_bits_load_big(const uint8_t *src)
{
    return __builtin_bswap64(tern_load_le64(src));
}

static inline void tern_bits_store_big(uint8_t *dst, uint64_t value)
{
    tern_store_le64(dst, __builtin_bswap64(value));
}

static inline uint64_t tern_bits_low(uint64_t value, unsigned bits)
{
    return value & ((1ull << bits) - 1);
}

// Returns the index of the highest bit that is set; value > 0.
static inline unsigned tern_bits_log2(uint64_t value)
{
    return 63u ^ (unsigned)__builtin_clzll(value);
}

// --- Writing

struct tern_bit_writer {
    uint8_t *at;
    uint64_t held;  // bits of the unfinished byte at `at`, lowest first
    unsigned count; // number of held bits
};

// Writes a field. bits <= TERN_BITS_MAX; value < 2^bits.
static inline void tern_bits_put(struct tern_bit_writer *writer, uint64_t value, unsigned bits)
{
    writer->held |= value << writer->count;
    writer->count += bits;
    tern_store_le64(writer->at, writer->held);
    unsigned whole = writer->count / 8;
    writer->at += whole;
    // The shift is below 64: at most 7 bits were held before, so `whole` is at most 7.
    writer->held >>= 8 * whole;
    writer->count %= 8;
}

// Pads the last byte with zeros and returns the end of the string.
static inline uint8_t *tern_bits_finish(const struct tern_bit_writer *writer)
{
    return writer->at + (writer->count > 0);
}

// --- Reading

struct tern_bit_reader {
    const uint8_t *src;
    size_t len;
    uint64_t at; // in bits
};

// Returns the next bits, at least TERN_BITS_MAX.
static inline uint64_t tern_bits_peek(const struct tern_bit_reader *reader)
{
    uint64_t byte = reader->at / 8;
    if (byte + 8 <= reader->len) {
        return tern_load_le64(reader->src + byte) >> reader->at % 8;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < 8 && byte + i < reader->len; i++) {
        value |= (uint64_t)reader->src[byte + i] << 8 * i;
    }
    return value >> reader->at % 8;
}

static inline uint64_t tern_bits_get(struct tern_bit_reader *reader, unsigned bits)
{
    uint64_t value = tern_bits_low(tern_bits_peek(reader), bits);
    reader->at += bits;
    return value;
}

// Whether the string was read exactly to its end, apart from less than a byte of zero padding.
static inline bool tern_bits_end(const struct tern_bit_reader *reader)
{
    return reader->at / 8 + (reader->at % 8 != 0) == reader->len && tern_bits_peek(reader) == 0;
}

// --- Backwards

// Writes a field downwards from `at`.
static inline void tern_bits_put_back(struct tern_bit_writer *writer, uint64_t value, unsigned bits)
{
    writer->held |= value << writer->count;
    writer->count += bits;
    tern_bits_store_big(writer->at - 8, writer->held);
    unsigned whole = writer->count / 8;
    writer->at -= whole;
    writer->held >>= 8 * whole;
    writer->count %= 8;
}

// Returns the lowest byte with bits.
static inline uint8_t *tern_bits_finish_back(const struct tern_bit_writer *writer)
{
    return writer->at - (writer->count > 0);
}

static inline uint64_t tern_bits_peek_back(const struct tern_bit_reader *reader)
{
    uint64_t byte = reader->at / 8;
    if (!TERN_SMALL && byte + 8 <= reader->len) {
        return tern_bits_load_big(reader->src + reader->len - byte - 8) >> reader->at % 8;
    }
    uint64_t value = 0;
    for (unsigned i = 8; i-- > 0;) {
        const bool is_in = byte + i < reader->len;
        value = value << 8 | (is_in ? reader->src[reader->len - 1 - byte - i] : 0);
    }
    return value >> reader->at % 8;
}

static inline uint64_t tern_bits_get_back(struct tern_bit_reader *reader, unsigned bits)
{
    uint64_t value = tern_bits_low(tern_bits_peek_back(reader), bits);
    reader->at += bits;
    return value;
}

// Whether the bits that were read fill the bytes from `end` on, apart from less than a byte of zero padding.
static inline bool tern_bits_end_back(const struct tern_bit_reader *reader, size_t end)
{
    unsigned unused = (unsigned)(0 - reader->at % 8) % 8;
    return end + reader->at / 8 + (unused > 0) == reader->len &&
           tern_bits_low(tern_bits_peek_back(reader), unused) == 0;
}

// --- Elias omega codes

// Elias omega codes (Elias 1975) of whole numbers from 1; small numbers take few bits. A code is a list of groups and a "0".
// Each group is a binary number, highest bit first: the last one is the coded number, and each other one is the length of the
// next group less 1.
#define TERN_ELIAS_BITS 29
#define TERN_ELIAS_MOST ((1u << TERN_ELIAS_BITS) - 1) // the largest number that is written or read

static inline unsigned tern_elias_group(uint32_t number)
{
    return tern_bits_log2(number) + 1;
}

static inline unsigned tern_elias_length(uint32_t number)
{
    unsigned length = 1;
    while (number > 1) {
        unsigned group = tern_elias_group(number);
        length += group;
        number = group - 1;
    }
    return length;
}

// Returns the lowest `bits` bits in reverse order, because bit strings start with the lowest bit and groups with the highest.
static inline uint32_t tern_bits_reversed(uint32_t value, unsigned bits)
{
    value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
    value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
    value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(value) >> (32 - bits);
}

static inline void tern_elias_put(struct tern_bit_writer *writer, uint32_t number)
{
    // Builds the code from its end: each group goes below the later ones. The longest code has 40 bits.
    uint64_t code = 0;
    unsigned length = 1;
    while (number > 1) {
        unsigned group = tern_elias_group(number);
        code = code << group | tern_bits_reversed(number, group);
        length += group;
        number = group - 1;
    }
    tern_bits_put(writer, code, length);
}

// Returns the next number, or 0 if it is above TERN_ELIAS_MOST.
static inline uint32_t tern_elias_get(struct tern_bit_reader *reader)
{
    uint64_t bits = tern_bits_peek(reader);
    unsigned used = 0;
    uint32_t number = 1;
    // tern_bits_peek() returns all bits of a valid code. Zeros after the end terminate a code.
    while ((bits >> used & 1) != 0) {
        unsigned group = number + 1;
        if (group > TERN_ELIAS_BITS) {
            return 0;
        }
        number = tern_bits_reversed((uint32_t)tern_bits_low(bits >> used, group), group);
        used += group;
    }
    reader->at += used + 1;
    return number;
}

#endif
