// Little-endian fields, LEB128 varints, and the text forms of bytes and numbers: hex, base64url, decimal. No function
// reads or writes outside the lengths that it is given. Pure; reentrant.
#ifndef TERN_UTIL_BYTES_H
#define TERN_UTIL_BYTES_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void tern_put_le16(uint8_t *dst, uint16_t value);
void tern_put_le32(uint8_t *dst, uint32_t value);
void tern_put_le64(uint8_t *dst, uint64_t value);
uint16_t tern_get_le16(const uint8_t *src);
uint32_t tern_get_le32(const uint8_t *src);
uint64_t tern_get_le64(const uint8_t *src);

// IEEE 754 binary32, little-endian.
void tern_put_f32(uint8_t *dst, float value);
float tern_get_f32(const uint8_t *src);

#define TERN_VARINT_MAX 10

// Writes `value` as unsigned LEB128; returns the bytes written (1..10).
size_t tern_put_varint(uint8_t dst[TERN_VARINT_MAX], uint64_t value);

// Reads an unsigned LEB128 from src[0..len) in its shortest form.
// Returns the bytes read; 0: it is truncated, over-long or above 64 bits.
size_t tern_get_varint(const uint8_t *src, size_t len, uint64_t *value);

// Writes 2 * len lower-case hex digits and a terminating NUL.
void tern_hex_encode(const uint8_t *src, size_t len, char *dst);

// Reads exactly 2 * len hex digits followed by NUL.
// TERN_ERR_CORRUPT on any other text; dst is then unspecified.
TERN_MUST_USE enum tern_result tern_hex_decode(const char *src, uint8_t *dst, size_t len);

#define TERN_DECIMAL_MAX 20 // digits of 2^64 - 1

// Writes a number in decimal and a terminating NUL; returns the address of the NUL.
char *tern_put_decimal(char *dst, size_t number);

// Reads decimal digits; returns the address behind the last one, or `text` where there is none. A number above 2^64 - 1
// reads as 2^64 - 1.
const char *tern_get_decimal(const char *text, uint64_t *number);

// Length of the unpadded base64url text (RFC 4648, section 5) of `len` bytes.
#define TERN_BASE64URL_LENGTH(len) (((len)*4 + 2) / 3)

// Writes TERN_BASE64URL_LENGTH(len) characters and a terminating NUL.
void tern_base64url_encode(const uint8_t *src, size_t len, char *dst);

// Reads src_len characters that must be exactly the canonical text of len bytes.
// TERN_ERR_CORRUPT on any other text; dst is then unspecified.
TERN_MUST_USE enum tern_result tern_base64url_decode(const char *src, size_t src_len, uint8_t *dst,
                                                     size_t len);

// Returns true if the len bytes are equal. The time depends only on len, so that it reveals nothing
// about secrets.
bool tern_equal_constant_time(const void *a, const void *b, size_t len);

// --- Words for inner loops

// tern_load_le16() to tern_store_le64(): little-endian words at any address, inline, which compile to one move.

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

#ifdef __cplusplus
}
#endif

#endif
