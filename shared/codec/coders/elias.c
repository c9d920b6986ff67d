#include "codec/coders/elias.h"

// The code is "0" behind groups, each of which is a number in binary, highest bit first: the last
// one is the number itself, and each tells the length of the next one, less 1.

enum { MOST_BITS = 29 };

static inline unsigned bit_length(uint32_t number)
{
    return tern_bits_log2(number) + 1;
}

unsigned tern_elias_length(uint32_t number)
{
    unsigned length = 1;
    while (number > 1) {
        unsigned group = bit_length(number);
        length += group;
        number = group - 1;
    }
    return length;
}

// The lowest `bits` bits in reverse: bit strings take the lowest first, groups the highest.
static inline uint32_t reversed(uint32_t value, unsigned bits)
{
    value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
    value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
    value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(value) >> (32 - bits);
}

void tern_elias_put(struct tern_bit_writer *writer, uint32_t number)
{
    // From the end on: each group goes below what is there. The longest code has 40 bits.
    uint64_t code = 0;
    unsigned length = 1;
    while (number > 1) {
        unsigned group = bit_length(number);
        code = code << group | reversed(number, group);
        length += group;
        number = group - 1;
    }
    tern_bits_put(writer, code, length);
}

uint32_t tern_elias_get(struct tern_bit_reader *reader)
{
    uint64_t bits = tern_bits_peek(reader);
    unsigned used = 0;
    uint32_t number = 1;
    // All of a valid code is in what peek() gives. Behind the end are zeros, which end a code.
    while ((bits >> used & 1) != 0) {
        unsigned group = number + 1;
        if (group > MOST_BITS) {
            return 0;
        }
        number = reversed((uint32_t)tern_bits_low(bits >> used, group), group);
        used += group;
    }
    reader->at += used + 1;
    return number;
}
