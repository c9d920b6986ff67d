// QSGD, levels that are not 0 as Elias omega codes: the distance to the last one, a sign, the level
// (section 3.2 of the paper, "Code_s").
#include "codec/coders/elias.h"
#include "codec/kernels/kernels.h"
#include "codec/kernels/levels.h"
#include "codec/quantizers/qsgd.h"
#include "util/bytes.h"
#include <string.h>

// A level that is not 0 costs the most bits for each value when it follows upon another: 1 for the
// distance, a sign, the level. Skipping g values adds at most 2 g bits to a distance.
size_t tern_qsgd_elias_bound(size_t count, uint32_t levels)
{
    size_t bits = 2 + tern_elias_length(levels);
    return TERN_VARINT_MAX + count / 8 * bits + (count % 8 * bits + 7) / 8 + TERN_BITS_SLACK;
}

static size_t nonzero_of(const float *values, size_t count)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < count; i++) {
        nonzero += values[i] != 0;
    }
    return nonzero;
}

uint8_t *tern_qsgd_elias_put(const float *values, size_t count, uint8_t *dst)
{
    struct tern_bit_writer writer = {.at = dst + tern_put_varint(dst, nonzero_of(values, count))};
    size_t after = 0; // the last value that is not 0
    for (size_t i = 0; i < count; i++) {
        if (values[i] != 0) {
            bool negative = values[i] < 0;
            tern_elias_put(&writer, (uint32_t)(i - after) + 1);
            tern_bits_put(&writer, negative, 1);
            tern_elias_put(&writer, (uint32_t)(negative ? -values[i] : values[i]));
            after = i + 1;
        }
    }
    return tern_bits_finish(&writer);
}

enum { LEAST_BITS = 3 }; // of a value that is not 0: a distance, a sign, a level

// Reads the values that are not 0 one after the other.
struct walk {
    struct tern_qsgd_layout layout;
    struct tern_bit_reader reader;
    size_t left;  // of them
    size_t index; // after the last one
    float scale;  // of the values below scale_end
    size_t scale_end;
};

struct symbol {
    size_t index;
    uint32_t level; // 0 if it is none that can be read
    bool negative;
};

// False when a body has no valid head.
static bool begin(struct walk *walk, const uint8_t *body, size_t len, size_t count)
{
    if (!tern_qsgd_layout(body, len, count, &walk->layout)) {
        return false;
    }
    uint64_t nonzero = 0;
    size_t bytes = tern_get_varint(walk->layout.rest, walk->layout.rest_len, &nonzero);
    walk->reader = (struct tern_bit_reader){.src = walk->layout.rest + bytes,
                                            .len = walk->layout.rest_len - bytes};
    walk->left = (size_t)nonzero;
    walk->index = 0;
    walk->scale_end = 0;
    return bytes > 0 && nonzero > 0 && nonzero <= count;
}

static struct symbol next_symbol(struct walk *walk)
{
    uint32_t distance = tern_elias_get(&walk->reader);
    struct symbol symbol = {.index = walk->index + distance - 1};
    symbol.negative = tern_bits_get(&walk->reader, 1) != 0;
    symbol.level = distance > 0 ? tern_elias_get(&walk->reader) : 0;
    walk->index = symbol.index + 1;
    walk->left--;
    return symbol;
}

static float value_of(struct walk *walk, struct symbol symbol)
{
    if (symbol.index >= walk->scale_end) {
        size_t bucket = symbol.index / walk->layout.bucket;
        walk->scale = tern_qsgd_scale(&walk->layout, bucket);
        walk->scale_end = (bucket + 1) * walk->layout.bucket;
    }
    float value =
        tern_level_value(walk->scale, (float)(int32_t)symbol.level, (float)walk->layout.levels);
    return tern_bits_float(tern_float_bits(value) | (uint32_t)symbol.negative << 31);
}

static enum tern_result elias_check(const uint8_t *body, size_t len, size_t count)
{
    struct walk walk;
    if (!begin(&walk, body, len, count)) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(tern_qsgd_check_scales(&walk.layout));
    // Behind the end are zeros, which would be read as any number of values.
    if (walk.left > 8 * (uint64_t)walk.reader.len / LEAST_BITS) {
        return TERN_ERR_CORRUPT;
    }
    while (walk.left > 0) {
        struct symbol symbol = next_symbol(&walk);
        if (symbol.level == 0 || symbol.level > walk.layout.levels || symbol.index >= count) {
            return TERN_ERR_CORRUPT;
        }
    }
    return tern_bits_end(&walk.reader) ? TERN_OK : TERN_ERR_CORRUPT;
}

static void elias_accumulate(const uint8_t *body, size_t len, float weight, float *acc,
                             size_t count)
{
    struct walk walk;
    begin(&walk, body, len, count);
    while (walk.left > 0) {
        struct symbol symbol = next_symbol(&walk);
        acc[symbol.index] += weight * value_of(&walk, symbol);
    }
}

static void elias_decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    struct walk walk;
    begin(&walk, body, len, count);
    memset(dst, 0, count * sizeof *dst);
    while (walk.left > 0) {
        struct symbol symbol = next_symbol(&walk);
        dst[symbol.index] = value_of(&walk, symbol);
    }
}

static void elias_describe(const uint8_t *body, size_t len, size_t count,
                           struct tern_codec_info *info)
{
    struct walk walk;
    begin(&walk, body, len, count);
    info->scale = tern_qsgd_scale(&walk.layout, 0);
    while (walk.left > 0) {
        tern_describe_value(info, value_of(&walk, next_symbol(&walk)));
    }
}

const struct tern_mode tern_qsgd_elias_mode = {
    .byte = TERN_MODE_QSGD_ELIAS,
    .name = "qsgd-elias",
    .check = elias_check,
    .decode = elias_decode,
    .accumulate = elias_accumulate,
    .describe = elias_describe,
};
