// QSGD, each level in the same number of bits: those of the largest one, and a sign above them.
#include "codec/coders/bits.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/qsgd.h"

static unsigned width_of(uint32_t levels)
{
    return tern_bits_log2(levels) + 2;
}

// count * width may not fit a size_t.
static size_t bytes_of(size_t count, unsigned width)
{
    return count / 8 * width + (count % 8 * width + 7) / 8;
}

size_t tern_qsgd_dense_bound(size_t count, uint32_t levels)
{
    return bytes_of(count, width_of(levels)) + TERN_BITS_SLACK;
}

uint8_t *tern_qsgd_dense_put(const float *values, size_t count, uint32_t levels, uint8_t *dst)
{
    unsigned width = width_of(levels);
    struct tern_bit_writer writer = {.at = dst};
    for (size_t i = 0; i < count; i++) {
        bool negative = values[i] < 0;
        uint32_t level = (uint32_t)(negative ? -values[i] : values[i]);
        tern_bits_put(&writer, level | (uint32_t)negative << (width - 1), width);
    }
    return tern_bits_finish(&writer);
}

static enum tern_result dense_check(const uint8_t *body, size_t len, size_t count)
{
    struct tern_qsgd_layout layout;
    if (!tern_qsgd_layout(body, len, count, &layout) ||
        layout.rest_len != bytes_of(count, width_of(layout.levels))) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(tern_qsgd_check_scales(&layout));
    unsigned width = width_of(layout.levels);
    struct tern_bit_reader reader = {.src = layout.rest, .len = layout.rest_len};
    bool valid = true;
    for (size_t i = 0; i < count; i++) {
        uint64_t field = tern_bits_get(&reader, width);
        // Zero has one form.
        valid &= tern_bits_low(field, width - 1) <= layout.levels && field != 1u << (width - 1);
    }
    return valid && tern_bits_end(&reader) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Reads values one after the other.
struct walk {
    struct tern_qsgd_layout layout;
    struct tern_bit_reader reader;
    unsigned width;
    float scale; // of the values below `scale_end`
    size_t scale_end;
};

static struct walk walk_of(const uint8_t *body, size_t len, size_t count)
{
    struct walk walk = {.scale = 0};
    tern_qsgd_layout(body, len, count, &walk.layout);
    walk.reader = (struct tern_bit_reader){.src = walk.layout.rest, .len = walk.layout.rest_len};
    walk.width = width_of(walk.layout.levels);
    return walk;
}

// The value `index`, which is the next one.
static inline float next_value(struct walk *walk, size_t index)
{
    if (index == walk->scale_end) {
        walk->scale = tern_qsgd_scale(&walk->layout, index);
        walk->scale_end += walk->layout.bucket;
    }
    uint32_t field = (uint32_t)tern_bits_get(&walk->reader, walk->width);
    uint32_t negative = field >> (walk->width - 1);
    uint32_t level = field ^ negative << (walk->width - 1);
    float value = tern_qsgd_value(walk->scale, (float)(int32_t)level, (float)walk->layout.levels);
    return tern_bits_float(tern_float_bits(value) | negative << 31);
}

static void dense_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    struct walk walk = walk_of(body, len, count);
    for (size_t i = 0; i < count; i++) {
        dst[i] = next_value(&walk, i);
    }
}

static void dense_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                             size_t count)
{
    struct walk walk = walk_of(body, len, count);
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * next_value(&walk, i);
    }
}

static void dense_describe(const uint8_t *body, size_t len, size_t count,
                           struct tern_codec_info *info)
{
    struct walk walk = walk_of(body, len, count);
    info->scale = tern_qsgd_scale(&walk.layout, 0);
    for (size_t i = 0; i < count; i++) {
        tern_describe_value(info, next_value(&walk, i));
    }
}

const struct tern_mode tern_qsgd_dense_mode = {
    .byte = TERN_MODE_QSGD_DENSE,
    .name = "qsgd-dense",
    .check = dense_check,
    .decode = dense_decode,
    .accumulate = dense_accumulate,
    .describe = dense_describe,
};
