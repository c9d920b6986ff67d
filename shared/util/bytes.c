#include "util/bytes.h"

#include <stdbool.h>

void tern_put_le16(uint8_t *dst, uint16_t value)
{
    dst[0] = (uint8_t)value;
    dst[1] = (uint8_t)(value >> 8);
}

void tern_put_le32(uint8_t *dst, uint32_t value)
{
    tern_put_le16(dst, (uint16_t)value);
    tern_put_le16(dst + 2, (uint16_t)(value >> 16));
}

void tern_put_le64(uint8_t *dst, uint64_t value)
{
    tern_put_le32(dst, (uint32_t)value);
    tern_put_le32(dst + 4, (uint32_t)(value >> 32));
}

uint16_t tern_get_le16(const uint8_t *src)
{
    return (uint16_t)(src[0] | src[1] << 8);
}

uint32_t tern_get_le32(const uint8_t *src)
{
    return tern_get_le16(src) | (uint32_t)tern_get_le16(src + 2) << 16;
}

uint64_t tern_get_le64(const uint8_t *src)
{
    return tern_get_le32(src) | (uint64_t)tern_get_le32(src + 4) << 32;
}

void tern_put_f32(uint8_t *dst, float value)
{
    union {
        float value;
        uint32_t bits;
    } word = {.value = value};
    tern_put_le32(dst, word.bits);
}

float tern_get_f32(const uint8_t *src)
{
    union {
        uint32_t bits;
        float value;
    } word = {.bits = tern_get_le32(src)};
    return word.value;
}

size_t tern_put_varint(uint8_t dst[TERN_VARINT_MAX], uint64_t value)
{
    size_t len = 0;
    while (value >= 0x80) {
        dst[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    dst[len++] = (uint8_t)value;
    return len;
}

size_t tern_get_varint(const uint8_t *src, size_t len, uint64_t *value)
{
    uint64_t result = 0;
    for (size_t i = 0; i < len && i < TERN_VARINT_MAX; i++) {
        uint8_t byte = src[i];
        // The tenth byte can hold only bit 63. A last byte of 0 is refused, because a shorter form
        // has the same value.
        if ((i == TERN_VARINT_MAX - 1 && byte > 1) || (i > 0 && byte == 0)) {
            return 0;
        }
        result |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *value = result;
            return i + 1;
        }
    }
    return 0;
}

bool tern_equal_constant_time(const void *a, const void *b, size_t len)
{
    const uint8_t *left = a;
    const uint8_t *right = b;
    // volatile prevents the compiler from ending the loop at the first difference.
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference = (uint8_t)(difference | (left[i] ^ right[i]));
    }
    return difference == 0;
}

// --- Text forms: hex, base64url, decimal

static const char base64url_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void tern_hex_encode(const uint8_t *src, size_t len, char *dst)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        *dst++ = digits[src[i] >> 4];
        *dst++ = digits[src[i] & 15];
    }
    *dst = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

enum tern_result tern_hex_decode(const char *src, uint8_t *dst, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(src[2 * i]);
        // Reads the second digit only if the first is not the end of the text.
        int low = high < 0 ? -1 : hex_value(src[2 * i + 1]);
        if (low < 0) {
            return TERN_ERR_CORRUPT;
        }
        dst[i] = (uint8_t)(high * 16 + low);
    }
    return src[2 * len] == '\0' ? TERN_OK : TERN_ERR_CORRUPT;
}

void tern_base64url_encode(const uint8_t *src, size_t len, char *dst)
{
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | src[i];
        held += 8;
        while (held >= 6) {
            held -= 6;
            *dst++ = base64url_alphabet[bits >> held & 63];
        }
    }
    if (held > 0) {
        *dst++ = base64url_alphabet[bits << (6 - held) & 63];
    }
    *dst = '\0';
}

static int base64url_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == '-') {
        return 62;
    }
    return c == '_' ? 63 : -1;
}

enum tern_result tern_base64url_decode(const char *src, size_t src_len, uint8_t *dst, size_t len)
{
    if (src_len != TERN_BASE64URL_LENGTH(len)) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < src_len; i++) {
        int value = base64url_value(src[i]);
        if (value < 0) {
            return TERN_ERR_CORRUPT;
        }
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            *dst++ = (uint8_t)(bits >> held);
        }
    }
    // Canonical text has zeros in the unused bits of its last character.
    return (bits & ((1u << held) - 1)) == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

char *tern_put_decimal(char *dst, size_t number)
{
    char digits[TERN_DECIMAL_MAX];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        *dst++ = digits[--count];
    }
    *dst = '\0';
    return dst;
}

const char *tern_get_decimal(const char *text, uint64_t *number)
{
    const uint64_t most = UINT64_MAX / 10;
    *number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        const bool fits = *number < most || (*number == most && digit <= UINT64_MAX % 10);
        *number = fits ? *number * 10 + digit : UINT64_MAX;
    }
    return text;
}
