// Planar base-3^5 bytes (3LC section 3.2), as they are or with zero runs coded (section 3.3).
#include "codec/coders/ternary.h"
#include "util/bytes.h"

#include <stdbool.h>

// --- Checks
// --------------------------------------------------------------------------------------------

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
    TERN_TRY(tern_ternary_check_scale(body, len));
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
    tern_ternary_describe(body, tern_kernel_ternary_nonzero(coded, coded_len),
                          tern_kernel_run_facts(coded, coded_len).runs, info);
}

const struct tern_mode tern_ternary_zero_run_mode = {
    .byte = TERN_MODE_TERNARY_ZERO_RUN,
    .ternary = true,
    .name = "ternary-zero-run",
    .check = check_runs,
    .decode = decode_runs,
    .accumulate = accumulate_runs,
    .describe = describe,
};

const struct tern_mode tern_ternary_packed_mode = {
    .byte = TERN_MODE_TERNARY_PACKED,
    .ternary = true,
    .name = "ternary-packed",
    .check = check_packed,
    .decode = decode_packed,
    .accumulate = accumulate_packed,
    .describe = describe,
};

// --- Coders
// ----------------------------------------------------------------------------------------------

void tern_planar_from_planes(const struct tern_planes *planes, uint8_t *packed)
{
    size_t stride = tern_ternary_stride(planes->count);
    for (size_t byte = 0; byte < stride; byte++) {
        unsigned digits = 0;
        for (size_t at = byte; at < TERN_TERNARY_PARTS * stride; at += stride) {
            uint64_t nonzero = at < planes->count ? planes->nonzero[at / 64] >> at % 64 & 1 : 0;
            uint64_t negative = nonzero != 0 ? planes->negative[at / 64] >> at % 64 & 1 : 0;
            digits = 3 * digits + 1 + (unsigned)nonzero - 2 * (unsigned)negative;
        }
        packed[byte] = (uint8_t)digits;
    }
}

static size_t encode_packed(const struct tern_planes *planes, uint8_t *dst)
{
    tern_planar_from_planes(planes, dst);
    return tern_ternary_stride(planes->count);
}

static size_t encode_zero_run(const struct tern_planes *planes, uint8_t *dst)
{
    return tern_kernel_run_encode(dst, encode_packed(planes, dst));
}

static size_t leave_packed(uint8_t *packed, size_t stride)
{
    (void)packed;
    return stride;
}

const struct tern_ternary_coder tern_packed_coder = {
    .mode = TERN_MODE_TERNARY_PACKED,
    .bound = tern_ternary_stride,
    .encode = encode_packed,
    .encode_planar = leave_packed,
};

const struct tern_ternary_coder tern_zero_run_coder = {
    .mode = TERN_MODE_TERNARY_ZERO_RUN,
    .bound = tern_ternary_stride,
    .encode = encode_zero_run,
    .encode_planar = tern_kernel_run_encode,
};
