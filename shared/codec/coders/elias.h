// Elias omega codes (Elias 1975): whole numbers from 1 on, small ones in few bits. Written first
// bit first into the bit strings of bits.h. Pure; reentrant.
#ifndef TERN_ELIAS_H
#define TERN_ELIAS_H

#include "codec/coders/bits.h"

#define TERN_ELIAS_MOST ((1u << 29) - 1) // the largest number that is written or read

// Bits of the code of number >= 1.
unsigned tern_elias_length(uint32_t number);

// 1 <= number <= TERN_ELIAS_MOST.
void tern_elias_put(struct tern_bit_writer *writer, uint32_t number);

// The next number, or 0 when it is above TERN_ELIAS_MOST.
uint32_t tern_elias_get(struct tern_bit_reader *reader);

#endif
