// Little-endian fields, LEB128 varints, text forms of bytes (hex, base64url) and numbers. Nothing
// here reads or writes outside the lengths it is given. Pure; reentrant.
#ifndef TERN_BYTES_H
#define TERN_BYTES_H

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
// Returns the bytes read, or 0 when it is truncated, over-long or above 64 bits.
size_t tern_get_varint(const uint8_t *src, size_t len, uint64_t *value);

// Writes 2 * len lower-case hex digits and a terminating NUL.
void tern_hex_encode(const uint8_t *src, size_t len, char *dst);

// Reads exactly 2 * len hex digits followed by NUL.
// TERN_ERR_CORRUPT on any other text; dst is then unspecified.
TERN_MUST_USE enum tern_result tern_hex_decode(const char *src, uint8_t *dst, size_t len);

#define TERN_DECIMAL_MAX 20 // digits of 2^64 - 1

// Writes a number in decimal and a terminating NUL; returns where that stands.
char *tern_put_decimal(char *dst, size_t number);

// Reads decimal digits; returns where they end, which is text itself where there are none. What is
// above 2^64 - 1 reads as that.
const char *tern_get_decimal(const char *text, uint64_t *number);

// Length of the unpadded base64url text (RFC 4648, section 5) of `len` bytes.
#define TERN_BASE64URL_LENGTH(len) (((len)*4 + 2) / 3)

// Writes TERN_BASE64URL_LENGTH(len) characters and a terminating NUL.
void tern_base64url_encode(const uint8_t *src, size_t len, char *dst);

// Reads src_len characters that must be exactly the canonical text of len bytes.
// TERN_ERR_CORRUPT on any other text; dst is then unspecified.
TERN_MUST_USE enum tern_result tern_base64url_decode(const char *src, size_t src_len, uint8_t *dst,
                                                     size_t len);

// Compares in time that depends on len alone.
bool tern_equal_constant_time(const void *a, const void *b, size_t len);

#ifdef __cplusplus
}
#endif

#endif
