// The ternary coders packed (planar base-3^5 bytes, 3LC section 3.2) and zero-run (the same with coded runs, section 3.3).
#include "codec/coders/parallel.h"
#include "codec/coders/ternary.h"
#include "codec/kernels/offload.h"
#include "util/bytes.h"

#include <stdbool.h>

// --- Checks

// Whether the padding digits of planar byte `at`, whose index is `count` or more, are 1, that is q = 0.
static bool padding_is_zero(uint8_t packed, size_t at, size_t count)
{
    size_t stride = tern_packed_stride(count);
    for (size_t part = TERN_TERNARY_PARTS; part-- > 0; packed /= 3) {
        if (part * stride + at >= count && packed % 3 != 1) {
            return false;
        }
    }
    return true;
}

// Checks all padding digits. There are fewer than five, in the last four bytes, so the function steps back from the end. The
// coded bytes expand to stride bytes.
static bool all_padding_is_zero(const uint8_t *coded, size_t len, size_t count)
{
    size_t at = tern_packed_stride(count);
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

// Checks that the bytes expand to exactly the length for `count` values, which bounds all writes of decoding.
static enum tern_result check_digits(const uint8_t *body, size_t len, size_t count, bool runs)
{
    TERN_TRY(tern_ternary_check_scale(body, len));
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    size_t stride = tern_packed_stride(count);
    // A coded byte expands to at least one byte.
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

typedef void ternary_kernel(const uint8_t *packed, size_t len, float scale,
                            struct tern_ternary_target target);

// If one coded byte stands for more than so many packed bytes, reading the codes is faster than expanding them.
enum { SPARSE = 8 };

// Passes all bytes to the kernels, block by block: to `sparse` as run codes if they are mostly runs, else expanded to `dense`.
static void walk_runs(const uint8_t *coded, size_t len, float scale,
                      struct tern_ternary_target target, ternary_kernel *dense,
                      ternary_kernel *sparse)
{
    uint8_t block[TERN_TERNARY_BLOCK_ROOM];
    if (len < target.stride / SPARSE) {
        sparse(coded, len, scale, target);
        return;
    }
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

struct tern_ternary_target tern_planar_target(float *values, size_t count)
{
    return (struct tern_ternary_target){
        .at = values, .end = values + count, .stride = tern_packed_stride(count)};
}

// Returns the destination for values that are only written; past the caches if they would not stay there.
static struct tern_ternary_target fresh_target(float *values, size_t count)
{
    struct tern_ternary_target target = tern_planar_target(values, count);
    target.stream = count >= TERN_STREAM_MIN;
    return target;
}

static void expand_runs(const uint8_t *coded, size_t len, float scale,
                        struct tern_ternary_target target)
{
    uint8_t block[TERN_TERNARY_BLOCK_ROOM];
    while (len > 0) {
        size_t expanded = 0;
        size_t used = tern_kernel_run_expand(coded, len, block, &expanded);
        tern_kernel_ternary_set(block, expanded, scale, target);
        coded += used;
        len -= used;
        target.at += expanded;
    }
    tern_kernel_finish();
}

static void decode_runs(const uint8_t *body, size_t len, float *dst, size_t count)
{
    if (tern_offload_decode(TERN_MODE_TERNARY_ZERO_RUN, body, len, dst, count)) {
        return;
    }
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    float scale = tern_get_f32(body);
    struct tern_ternary_target target = fresh_target(dst, count);
    if (target.stream) {
        expand_runs(coded, coded_len, scale, target);
    } else {
        walk_runs(coded, coded_len, scale, target, tern_kernel_ternary_set,
                  tern_kernel_ternary_set_runs);
    }
}

static void decode_packed(const uint8_t *body, size_t len, float *dst, size_t count)
{
    if (tern_offload_decode(TERN_MODE_TERNARY_PACKED, body, len, dst, count)) {
        return;
    }
    walk_packed(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES, tern_get_f32(body),
                fresh_target(dst, count), tern_kernel_ternary_set);
    tern_kernel_finish();
}

void tern_planar_add_runs(const uint8_t *coded, size_t len, float scale,
                          struct tern_ternary_target target)
{
    walk_runs(coded, len, scale, target, tern_kernel_ternary_add, tern_kernel_ternary_add_runs);
}

// weight * (scale * q) has the same bits as (weight * scale) * q, because q = -1 or 1 only changes the sign.
static void accumulate_runs(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    tern_planar_add_runs(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES,
                         weight * tern_get_f32(body), tern_planar_target(acc, count));
}

static void accumulate_packed(const uint8_t *body, size_t len, float weight, float *acc,
                              size_t count)
{
    walk_packed(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES,
                weight * tern_get_f32(body), tern_planar_target(acc, count),
                tern_kernel_ternary_add);
}

#if !TERN_SMALL
// --- Signs

// Lists each byte's digit of one part; run codes have 1, that is q = 0.
static void list_digits(size_t part, uint8_t digits[256])
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned left = byte < TERN_TERNARY_LIMIT ? byte : TERN_TERNARY_ZERO;
        for (size_t i = part + 1; i < TERN_TERNARY_PARTS; i++) {
            left /= 3;
        }
        digits[byte] = (uint8_t)(left % 3);
    }
}

// Passes the values that are not 0 to take(). Reads all bytes for each part, because the values of one byte are far apart. Has no
// branch on digits: it always stores an entry, and a batch always has room for one more.
static void signs_of_runs(const uint8_t *body, size_t len, size_t count, tern_take_signs *take,
                          void *ctx)
{
    const float scale = tern_get_f32(body);
    struct tern_indices indices = {.count = 0};
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        uint8_t digits[256];
        size_t at = part * tern_packed_stride(count);
        list_digits(part, digits);
        for (size_t i = TERN_TERNARY_SCALE_BYTES; i < len; i++) {
            const uint8_t digit = digits[body[i]];
            indices.of[indices.count] = 2 * (tern_signed_index)at + (digit == 0);
            indices.count += digit != 1;
            at += tern_run_length(body[i]);
            if (indices.count == TERN_INDICES_MAX) {
                take(ctx, scale, &indices);
                indices.count = 0;
            }
        }
    }
    if (indices.count > 0) {
        take(ctx, scale, &indices);
    }
}
#endif

// Describes a body with or without run codes.
static void describe(const uint8_t *body, size_t len, size_t count, struct tern_codec_info *info)
{
    (void)count;
    if (!TERN_FOR_PEOPLE) {
        tern_ternary_describe(body, 1, 0, info);
        return;
    }
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
#if !TERN_SMALL
    .signs = signs_of_runs,
#endif
};

const struct tern_mode tern_ternary_packed_mode = {
    .byte = TERN_MODE_TERNARY_PACKED,
    .ternary = true,
    .name = "ternary-packed",
    .check = check_packed,
    .decode = decode_packed,
    .accumulate = accumulate_packed,
    .describe = describe,
#if !TERN_SMALL
    .signs = signs_of_runs,
#endif
};

// --- Coders

#define EACH_BYTE(b) (0x0101010101010101u * (uint64_t)(b))

enum { TERN_WORD = sizeof(uint64_t) };

// Returns up to 8 bits of a plane from value `at` on, each in its own byte, 0 or 1.
static uint64_t bytes_of_bits(const uint64_t *plane, size_t at, size_t bits)
{
    uint64_t byte = plane[at / 64] >> at % 64;
    if (at % 64 + bits > 64) {
        byte |= plane[at / 64 + 1] << (64 - at % 64);
    }
    byte &= (1u << bits) - 1;
    uint64_t apart = byte * EACH_BYTE(1) & 0x8040201008040201u;
    return (apart + EACH_BYTE(0x7f)) >> 7 & EACH_BYTE(1);
}

// Packs eight bytes at once, by Horner's rule over the parts; no byte overflows into the next.
static void pack_planes(const struct tern_planes *planes, uint8_t *packed)
{
    size_t stride = tern_packed_stride(planes->count);
    for (size_t byte = 0; byte < stride; byte += TERN_WORD) {
        size_t here = stride - byte < TERN_WORD ? stride - byte : TERN_WORD;
        uint64_t digits = 0;
        for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
            size_t at = part * stride + byte;
            size_t after = planes->count > at ? planes->count - at : 0;
            size_t bits = after < here ? after : here;
            digits = 3 * digits + EACH_BYTE(1);
            if (bits > 0) {
                digits += bytes_of_bits(planes->nonzero, at, bits);
                digits -= 2 * bytes_of_bits(planes->negative, at, bits);
            }
        }
        for (size_t i = 0; i < here; i++, digits >>= 8) {
            packed[byte + i] = (uint8_t)digits;
        }
    }
}

static size_t encode_packed(const struct tern_planes *planes, uint8_t *dst)
{
    pack_planes(planes, dst);
    return tern_packed_stride(planes->count);
}

static size_t encode_zero_run(const struct tern_planes *planes, uint8_t *dst)
{
    return tern_kernel_run_encode(dst, encode_packed(planes, dst));
}

static size_t run_encode_planar(uint8_t *packed, size_t stride,
                                const struct tern_parallel *parallel)
{
    return tern_parallel_run_encode(parallel, packed, stride);
}

static size_t leave_packed(uint8_t *packed, size_t stride, const struct tern_parallel *parallel)
{
    (void)packed;
    (void)parallel;
    return stride;
}

const struct tern_ternary_coder tern_packed_coder = {
    .mode = TERN_MODE_TERNARY_PACKED,
    .bound = tern_packed_stride,
    .encode = encode_packed,
    .encode_planar = leave_packed,
};

const struct tern_ternary_coder tern_zero_run_coder = {
    .mode = TERN_MODE_TERNARY_ZERO_RUN,
    .bound = tern_packed_stride,
    .encode = encode_zero_run,
    .encode_planar = run_encode_planar,
};
