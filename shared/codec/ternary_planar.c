// Reading ternary payloads, planar: run-coded or packed.
#include "codec/modes.h"
#include "codec/ternary.h"
#include "util/bytes.h"

#include <stdbool.h>

// --- Checks
// --------------------------------------------------------------------------------------------

static enum tern_result check_scale(const uint8_t *body, size_t len)
{
    if (len < TERN_TERNARY_SCALE_BYTES) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t bits = tern_get_le32(body);
    // Unsigned, a sign bit is above infinity.
    if (bits >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    return bits > 0 ? TERN_OK : TERN_ERR_CORRUPT; // all zero is mode zero
}

// Whether the digits of byte `at` that lie at `count` or later are 1, which is q = 0.
static bool padding_is_zero(uint8_t packed, size_t at, size_t count)
{
    size_t stride = tern_ternary_stride(count);
    for (size_t part = TERN_TERNARY_PARTS; part-- > 0; packed /= 3) {
        if (part * stride + at >= count && packed % 3 != 1) {
            return false;
        }
    }
    return true;
}

// Digits past `count` are fewer than five, so they are in the last four bytes. Steps back over
// coded bytes that expand to stride bytes in all.
static bool all_padding_is_zero(const uint8_t *coded, size_t len, size_t count)
{
    size_t at = tern_ternary_stride(count);
    size_t first = at > TERN_TERNARY_PARTS ? at - TERN_TERNARY_PARTS : 0;
    while (len > 0 && at > first) {
        uint8_t byte = coded[--len];
        at -= tern_run_length(byte);
        if (byte < TERN_TERNARY_LIMIT && !padding_is_zero(byte, at, count)) {
            return false;
        }
    }
    return true;
}

// The expansion must have exactly the length that `count` asks for, which bounds everything that
// decoding writes.
static enum tern_result check_digits(const uint8_t *body, size_t len, size_t count, bool runs)
{
    TERN_TRY(check_scale(body, len));
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    size_t stride = tern_ternary_stride(count);
    // No coded byte stands for less than one, so the sum below cannot be large for its input.
    if (coded_len > stride) {
        return TERN_ERR_CORRUPT;
    }
    struct tern_run_facts facts = tern_kernel_run_facts(coded, coded_len);
    if (facts.expanded != stride || (facts.runs > 0 && !runs)) {
        return TERN_ERR_CORRUPT;
    }
    return all_padding_is_zero(coded, coded_len, count) ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result check_runs(const uint8_t *body, size_t len, size_t count)
{
    return check_digits(body, len, count, true);
}

static enum tern_result check_packed(const uint8_t *body, size_t len, size_t count)
{
    return check_digits(body, len, count, false);
}

// --- Values
// ---------------------------------------------------------------------------------------------

typedef void ternary_kernel(const uint8_t *packed, size_t len, float scale,
                            struct tern_ternary_target target);

// Below one coded byte for this many values' bytes, walking the codes beats walking the values.
enum { SPARSE = 8 };

// Gives all bytes to the kernels, a block at a time: run-coded ones to `sparse` where they are
// mostly runs, and expanded to `dense` elsewhere.
static void walk_runs(const uint8_t *coded, size_t len, float scale,
                      struct tern_ternary_target target, ternary_kernel *dense,
                      ternary_kernel *sparse)
{
    uint8_t block[TERN_TERNARY_BLOCK_ROOM];
    while (len > 0) {
        size_t expanded = 0;
        size_t used = tern_kernel_run_expand(coded, len, block, &expanded);
        if (used < expanded / SPARSE) {
            sparse(coded, used, scale, target);
        } else {
            dense(block, expanded, scale, target);
        }
        coded += used;
        len -= used;
        target.at += expanded;
    }
}

static void walk_packed(const uint8_t *packed, size_t len, float scale,
                        struct tern_ternary_target target, ternary_kernel *dense)
{
    while (len > 0) {
        size_t used = len < TERN_TERNARY_BLOCK ? len : TERN_TERNARY_BLOCK;
        dense(packed, used, scale, target);
        packed += used;
        len -= used;
        target.at += used;
    }
}

static struct tern_ternary_target target_of(float *values, size_t count)
{
    return (struct tern_ternary_target){
        .at = values, .end = values + count, .stride = tern_ternary_stride(count)};
}

static void decode_runs(const uint8_t *body, size_t len, float *dst, size_t count)
{
    walk_runs(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES, tern_get_f32(body),
              target_of(dst, count), tern_kernel_ternary_set, tern_kernel_ternary_set_runs);
}

static void decode_packed(const uint8_t *body, size_t len, float *dst, size_t count)
{
    walk_packed(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES, tern_get_f32(body),
                target_of(dst, count), tern_kernel_ternary_set);
}

// weight * (scale * q) is (weight * scale) * q, both rounded once: q only changes the sign.
static void accumulate_runs(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    walk_runs(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES,
              weight * tern_get_f32(body), target_of(acc, count), tern_kernel_ternary_add,
              tern_kernel_ternary_add_runs);
}

static void accumulate_packed(const uint8_t *body, size_t len, float weight, float *acc,
                              size_t count)
{
    walk_packed(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES,
                weight * tern_get_f32(body), target_of(acc, count), tern_kernel_ternary_add);
}

static void describe(const uint8_t *body, size_t len, size_t count, struct tern_codec_info *info)
{
    (void)count;
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    double scale = (double)tern_get_f32(body);
    info->scale = tern_get_f32(body);
    info->nonzero = tern_kernel_ternary_nonzero(coded, coded_len);
    info->runs = tern_kernel_run_facts(coded, coded_len).runs;
    info->sum_square = (double)info->nonzero * (scale * scale);
    info->maximum = info->nonzero > 0 ? info->scale : 0;
}

const struct tern_mode tern_3lc_planar_runs_mode = {
    .byte = TERN_MODE_3LC_PLANAR_RUNS,
    .id = TERN_CODEC_3LC,
    .name = "3lc-planar-runs",
    .check = check_runs,
    .decode = decode_runs,
    .accumulate = accumulate_runs,
    .describe = describe,
};

const struct tern_mode tern_3lc_planar_packed_mode = {
    .byte = TERN_MODE_3LC_PLANAR_PACKED,
    .id = TERN_CODEC_3LC,
    .name = "3lc-planar-packed",
    .check = check_packed,
    .decode = decode_packed,
    .accumulate = accumulate_packed,
    .describe = describe,
};
