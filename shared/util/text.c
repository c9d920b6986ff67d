// Text forms of bytes: hex and base64url; and of numbers.
#include "util/bytes.h"
#include <stdbool.h>

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
        // Looks at the second digit only when the first is not the end of the text.
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
    // The bits that fill the last character are zero in the one canonical text.
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
