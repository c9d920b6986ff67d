// Little-endian words in bytes, inline for inner loops: a compiler makes one move of each. Pure.
#ifndef TERN_WORDS_H
#define TERN_WORDS_H

#include <stdint.h>

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TERN_WORD_SWAP(bits, word) __builtin_bswap##bits(word)
#else
#define TERN_WORD_SWAP(bits, word) (word)
#endif

#define TERN_WORD_FUNCTIONS(bits)                                                                  \
    static inline uint##bits##_t tern_load_le##bits(const uint8_t *src)                            \
    {                                                                                              \
        uint##bits##_t word;                                                                       \
        __builtin_memcpy(&word, src, sizeof word);                                                 \
        return TERN_WORD_SWAP(bits, word);                                                         \
    }                                                                                              \
    static inline void tern_store_le##bits(uint8_t *dst, uint##bits##_t word)                      \
    {                                                                                              \
        word = TERN_WORD_SWAP(bits, word);                                                         \
        __builtin_memcpy(dst, &word, sizeof word);                                                 \
    }

TERN_WORD_FUNCTIONS(16)
TERN_WORD_FUNCTIONS(32)
TERN_WORD_FUNCTIONS(64)

#endif
