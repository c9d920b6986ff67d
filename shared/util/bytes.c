#include "util/bytes.h"

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
        // The tenth byte carries bit 63 alone; a last byte of 0 would say what fewer bytes say.
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
    // volatile keeps the compiler from leaving the loop at the first difference.
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference = (uint8_t)(difference | (left[i] ^ right[i]));
    }
    return difference == 0;
}
