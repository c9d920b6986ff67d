#include "error_feedback/error_storage.h"

#include "codec/kernels/kernels.h"
#include "util/bytes.h"
#include "util/text.h"
#include <stdbool.h>
#include <string.h>

#define BFLOAT16_INFINITY 0x7f80u
#define INT8_MOST 127
#define BLOCK_BYTES (4 + TERN_ERROR_BLOCK)

static const char *const names[] = {"float32", "bfloat16", "int8"};

enum { STORAGES = sizeof names / sizeof names[0] };

enum tern_result tern_error_storage_from_name(const char *name, enum tern_error_storage *storage)
{
    for (unsigned i = 0; i < STORAGES; i++) {
        const char *rest = name;
        if (tern_skip_prefix(&rest, names[i]) && *rest == '\0') {
            *storage = (enum tern_error_storage)i;
            return TERN_OK;
        }
    }
    return TERN_ERR_UNKNOWN;
}

enum tern_result tern_error_storage_choose(const char *setting, uint32_t count,
                                           enum tern_error_storage *storage)
{
    const char *rest = setting;
    if (!tern_skip_prefix(&rest, "auto") || *rest != '\0') {
        return tern_error_storage_from_name(setting, storage);
    }
    *storage = count <= TERN_ERROR_FLOAT32_MOST    ? TERN_ERROR_FLOAT32
               : count <= TERN_ERROR_BFLOAT16_MOST ? TERN_ERROR_BFLOAT16
                                                   : TERN_ERROR_INT8;
    return TERN_OK;
}

size_t tern_error_storage_bytes(enum tern_error_storage storage, uint32_t count)
{
    const size_t blocks = count / TERN_ERROR_BLOCK + (count % TERN_ERROR_BLOCK != 0);
    switch (TERN_ERROR_STORAGE_OF(storage)) {
    case TERN_ERROR_FLOAT32:
        return (size_t)count * 4;
    case TERN_ERROR_BFLOAT16:
        return (size_t)count * 2;
    case TERN_ERROR_INT8:
        return count + 4 * blocks;
    }
    return 0;
}

// --- bfloat16: the upper half of a float32, rounded to the nearest, ties to even

// Rounds to the largest finite bfloat16 instead of infinity, because a buffer must stay finite.
static uint16_t to_bfloat16(float value)
{
    const uint32_t bits = tern_float_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t infinite = (rounded & 0x7fffu) == BFLOAT16_INFINITY;
    return (uint16_t)(rounded - infinite);
}

static void bfloat16_put(const float *restrict values, uint8_t *restrict bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t half = to_bfloat16(values[i]);
        bytes[2 * i] = (uint8_t)half;
        bytes[2 * i + 1] = (uint8_t)(half >> 8);
    }
}

static void bfloat16_get(const uint8_t *restrict bytes, float *restrict values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t half = bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8;
        values[i] = tern_bits_float(half << 16);
    }
}

static bool bfloat16_valid(const uint8_t *bytes, uint32_t count)
{
    unsigned infinite = 0;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned half = bytes[2 * i] | (unsigned)bytes[2 * i + 1] << 8;
        infinite |= (half & 0x7fffu) >= BFLOAT16_INFINITY;
    }
    return infinite == 0;
}

// --- int8: a block is a scale and signed bytes

// Returns a block's scale: its largest magnitude / 127, or the next smaller float32 if 127 times the scale were infinite.
static float scale_of(float peak)
{
    const float scale = peak / (float)INT8_MOST;
    const bool overflows = tern_float_bits((float)INT8_MOST * scale) >= TERN_INFINITY_BITS;
    return overflows ? tern_bits_float(tern_float_bits(scale) - 1) : scale;
}

// Adding 1.5 * 2^23 rounds to a whole number, ties to even.
static int8_t to_int8(float ratio)
{
    const float magic = 12582912.0f;
    const float whole = (ratio + magic) - magic;
    const float least = whole < -(float)INT8_MOST ? -(float)INT8_MOST : whole;
    return (int8_t)(least > (float)INT8_MOST ? (float)INT8_MOST : least);
}

static void block_put(const float *restrict values, uint8_t *restrict block, uint32_t count)
{
    const float scale = scale_of(tern_bits_float(tern_kernel_peak(values, count)));
    tern_put_f32(block, scale);
    if (scale == 0.0f) {
        memset(block + 4, 0, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        block[4 + i] = (uint8_t)to_int8(values[i] / scale);
    }
}

static void block_get(const uint8_t *restrict block, float *restrict values, uint32_t count)
{
    const float scale = tern_get_f32(block);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = scale * (float)(int8_t)block[4 + i];
    }
}

static bool block_valid(const uint8_t *block, uint32_t count)
{
    const float largest = (float)INT8_MOST * tern_get_f32(block);
    unsigned outside = tern_float_bits(largest) >= TERN_INFINITY_BITS; // also true if negative
    for (uint32_t i = 0; i < count; i++) {
        outside |= block[4 + i] == 0x80;
    }
    return outside == 0;
}

static uint32_t block_count(uint32_t done, uint32_t count)
{
    return count - done < TERN_ERROR_BLOCK ? count - done : TERN_ERROR_BLOCK;
}

static void int8_put(const float *values, uint8_t *bytes, uint32_t count)
{
    for (uint32_t done = 0; done < count; done += TERN_ERROR_BLOCK, bytes += BLOCK_BYTES) {
        block_put(values + done, bytes, block_count(done, count));
    }
}

static void int8_get(const uint8_t *bytes, float *values, uint32_t count)
{
    for (uint32_t done = 0; done < count; done += TERN_ERROR_BLOCK, bytes += BLOCK_BYTES) {
        block_get(bytes, values + done, block_count(done, count));
    }
}

static bool int8_valid(const uint8_t *bytes, uint32_t count)
{
    bool valid = true;
    for (uint32_t done = 0; done < count && valid; done += TERN_ERROR_BLOCK, bytes += BLOCK_BYTES) {
        valid = block_valid(bytes, block_count(done, count));
    }
    return valid;
}

// --- Any storage

void tern_error_storage_get(enum tern_error_storage storage, const void *bytes, uint32_t first,
                            float *values, uint32_t count)
{
    const uint8_t *from = (const uint8_t *)bytes + tern_error_storage_bytes(storage, first);
    switch (TERN_ERROR_STORAGE_OF(storage)) {
    case TERN_ERROR_FLOAT32:
        memcpy(values, from, (size_t)count * sizeof *values);
        break;
    case TERN_ERROR_BFLOAT16:
        bfloat16_get(from, values, count);
        break;
    case TERN_ERROR_INT8:
        int8_get(from, values, count);
        break;
    }
}

void tern_error_storage_put(enum tern_error_storage storage, const float *values, uint32_t first,
                            void *bytes, uint32_t count)
{
    uint8_t *to = (uint8_t *)bytes + tern_error_storage_bytes(storage, first);
    switch (TERN_ERROR_STORAGE_OF(storage)) {
    case TERN_ERROR_FLOAT32:
        memcpy(to, values, (size_t)count * sizeof *values);
        break;
    case TERN_ERROR_BFLOAT16:
        bfloat16_put(values, to, count);
        break;
    case TERN_ERROR_INT8:
        int8_put(values, to, count);
        break;
    }
}

enum tern_result tern_error_storage_check(enum tern_error_storage storage, const void *bytes,
                                          uint32_t count)
{
    bool valid = false;
    switch (TERN_ERROR_STORAGE_OF(storage)) {
    case TERN_ERROR_FLOAT32:
        valid = tern_kernel_peak_bytes(bytes, count) < TERN_INFINITY_BITS;
        break;
    case TERN_ERROR_BFLOAT16:
        valid = bfloat16_valid(bytes, count);
        break;
    case TERN_ERROR_INT8:
        valid = int8_valid(bytes, count);
        break;
    }
    return valid ? TERN_OK : TERN_ERR_CORRUPT;
}
