#include "data/readers.h"

#include "util/bytes.h"
#include "util/math.h"
#include <math.h>
#include <string.h>

static uint64_t bits_of(const struct tern_elements *type, const uint8_t *bytes)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < type->width; i++) {
        bits = bits << 8 | bytes[type->big_endian ? i : type->width - 1 - i];
    }
    return bits;
}

static double decode_element(const struct tern_elements *type, const uint8_t *bytes)
{
    const uint64_t bits = bits_of(type, bytes);
    const uint64_t sign = (uint64_t)1 << (8 * type->width - 1);
    if (type->kind == 'f' && type->width == 4) {
        return (double)tern_bits_float((uint32_t)bits);
    }
    if (type->kind == 'f') {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (type->kind == 'i' && (bits & sign) != 0) {
        // In two's complement the value is the unsigned number minus 2 * sign.
        return -(double)(sign - (bits - sign));
    }
    return (double)bits;
}

typedef bool store(void *values, uint64_t index, double value);

static bool store_float(void *values, uint64_t index, double value)
{
    const float rounded = (float)value;
    if (values != NULL) {
        ((float *)values)[index] = rounded;
    }
    return tern_is_finite(rounded);
}

static bool store_double(void *values, uint64_t index, double value)
{
    ((double *)values)[index] = value;
    return isfinite(value);
}

static enum tern_result refuse(const struct tern_input *input,
                               const struct tern_elements_range *range, uint64_t index)
{
    const uint64_t at = range->first + index;
    return tern_input_refuse(
        input, TERN_ERR_CORRUPT, "row %llu, value %llu (from 0): not a finite number in float32",
        (unsigned long long)(at / range->row), (unsigned long long)(at % range->row));
}

static enum tern_result read_range(struct tern_input *input, const struct tern_elements *type,
                                   const struct tern_elements_range *range, store *store_one,
                                   void *values)
{
    uint8_t block[8192];
    const uint64_t in_block = sizeof block / type->width;
    for (uint64_t done = 0; done < range->count;) {
        const uint64_t left = range->count - done;
        const size_t block_count = (size_t)(left < in_block ? left : in_block);
        TERN_TRY(tern_input_read_exact(input, block, block_count * type->width, range->what));
        for (size_t i = 0; i < block_count; i++) {
            if (!store_one(values, done + i, decode_element(type, block + i * type->width))) {
                return refuse(input, range, done + i);
            }
        }
        done += block_count;
    }
    return TERN_OK;
}

enum tern_result tern_elements_read_floats(struct tern_input *input,
                                           const struct tern_elements *type,
                                           const struct tern_elements_range *range, float *values)
{
    return read_range(input, type, range, store_float, values);
}

enum tern_result tern_elements_read_doubles(struct tern_input *input,
                                            const struct tern_elements *type,
                                            const struct tern_elements_range *range, double *values)
{
    return read_range(input, type, range, store_double, values);
}
