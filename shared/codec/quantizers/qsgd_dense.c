// QSGD, each level in the same number of bits: those of the largest one, and a sign above them.
#include "codec/coders/bits.h"
#include "codec/kernels/levels.h"
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
        // Without a branch on the sign, which could not be predicted.
        int32_t level = (int32_t)values[i];
        uint32_t negative = (uint32_t)level >> 31;
        uint32_t magnitude = ((uint32_t)level ^ (0u - negative)) + negative;
        tern_bits_put(&writer, magnitude | negative << (width - 1), width);
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

// Reads the levels of up to PIECE values of one bucket at a time.
enum { PIECE = 256 };

struct walk {
    struct tern_qsgd_layout layout;
    struct tern_bit_reader reader;
    unsigned width;
    size_t count;
    size_t at;   // the first value of the piece
    size_t len;  // of the piece; 0 behind the last one
    float scale; // of its bucket
    float levels[PIECE];
};

static void next_piece(struct walk *walk)
{
    walk->at += walk->len;
    size_t index = walk->at % walk->layout.bucket;
    size_t len = walk->layout.bucket - index;
    len = len < PIECE ? len : PIECE;
    walk->len = len < walk->count - walk->at ? len : walk->count - walk->at;
    if (walk->len > 0) {
        walk->scale = tern_qsgd_scale(&walk->layout, walk->at / walk->layout.bucket);
    }
    unsigned level_bits = walk->width - 1;
    for (size_t i = 0; i < walk->len; i++) {
        uint32_t field = (uint32_t)tern_bits_get(&walk->reader, walk->width);
        uint32_t negative = field >> level_bits;
        uint32_t magnitude = field & ((1u << level_bits) - 1);
        walk->levels[i] = (float)(int32_t)((magnitude ^ (0u - negative)) + negative);
    }
}

// At the first piece of a body that was checked.
static void begin(struct walk *walk, const uint8_t *body, size_t len, size_t count)
{
    tern_qsgd_layout(body, len, count, &walk->layout);
    walk->reader = (struct tern_bit_reader){.src = walk->layout.rest, .len = walk->layout.rest_len};
    walk->width = width_of(walk->layout.levels);
    walk->count = count;
    walk->at = 0;
    walk->len = 0;
    next_piece(walk);
}

static void dense_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    struct walk walk;
    for (begin(&walk, body, len, count); walk.len > 0; next_piece(&walk)) {
        tern_kernel_levels_set(walk.levels, walk.len, walk.scale, (float)walk.layout.levels,
                               dst + walk.at);
    }
}

static void dense_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                             size_t count)
{
    struct walk walk;
    for (begin(&walk, body, len, count); walk.len > 0; next_piece(&walk)) {
        tern_kernel_levels_add(walk.levels, walk.len, walk.scale, (float)walk.layout.levels, weight,
                               acc + walk.at);
    }
}

static void dense_describe(const uint8_t *body, size_t len, size_t count,
                           struct tern_codec_info *info)
{
    struct walk walk;
    begin(&walk, body, len, count);
    info->scale = walk.scale;
    for (; walk.len > 0; next_piece(&walk)) {
        for (size_t i = 0; i < walk.len; i++) {
            tern_describe_value(
                info, tern_level_value(walk.scale, walk.levels[i], (float)walk.layout.levels));
        }
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
