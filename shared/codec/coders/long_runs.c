// Planar base-3^5 bytes (3LC section 3.2) with zero runs of any length: where section 3.3 ends at
// 14 bytes a code, adjacent run codes are the digits of one length here. A run of k bytes costs
// about log13(k) bytes, which removes the floor of 8/70 bits per value.
#include "codec/coders/parallel.h"
#include "codec/coders/ternary.h"
#include "util/bytes.h"

#include <string.h>

// Bijective base 13: digits are 1 to 13, so that each length has one form and no leading zeros.
enum { BASE = TERN_RUN_MAX - 1, DIGIT_CODE = TERN_TERNARY_LIMIT - 1, DIGITS_MAX = 18 };

static inline bool is_run(uint8_t coded)
{
    return coded >= TERN_TERNARY_LIMIT;
}

// --- Coder

// Writes a run of `run` >= 2 bytes; returns the codes written.
static size_t write_run(size_t run, uint8_t *dst)
{
    uint8_t digits[DIGITS_MAX];
    size_t len = 0;
    for (size_t rest = run - 1; rest > 0; len++) {
        size_t higher = (rest - 1) / BASE;
        digits[len] = (uint8_t)(DIGIT_CODE + (rest - BASE * higher));
        rest = higher;
    }
    for (size_t i = 0; i < len; i++) {
        dst[i] = digits[len - 1 - i];
    }
    return len;
}

// The run that full codes open, of the form that tern_kernel_run_encode() writes: as many full ones
// as fit, then the rest. Returns the codes read.
static size_t read_full_run(const uint8_t *coded, size_t len, size_t *run)
{
    const uint8_t full = TERN_TERNARY_LIMIT - 2 + TERN_RUN_MAX;
    size_t used = 0;
    while (used < len && coded[used] == full) {
        used++;
    }
    *run = used * TERN_RUN_MAX;
    if (used < len && (is_run(coded[used]) || coded[used] == TERN_TERNARY_ZERO)) {
        *run += tern_run_length(coded[used++]);
    }
    return used;
}

// From zero runs to long runs, in place: they differ only where a full code stands, and no length
// takes more digits than it took codes.
static size_t merge_runs(uint8_t *coded, size_t len)
{
    const uint8_t full = TERN_TERNARY_LIMIT - 2 + TERN_RUN_MAX;
    size_t written = 0;
    size_t i = 0;
    while (i < len) {
        if (coded[i] != full) {
            coded[written++] = coded[i++];
            continue;
        }
        size_t run = 0;
        i += read_full_run(coded + i, len - i, &run);
        written += write_run(run, coded + written);
    }
    return written;
}

static size_t encode_planar(uint8_t *packed, size_t stride, const struct tern_parallel *parallel)
{
    return merge_runs(packed, tern_parallel_run_encode(parallel, packed, stride));
}

static size_t encode(const struct tern_planes *planes, uint8_t *dst)
{
    tern_planar_from_planes(planes, dst);
    return encode_planar(dst, tern_ternary_stride(planes->count), NULL);
}

const struct tern_ternary_coder tern_long_runs_coder = {
    .mode = TERN_MODE_TERNARY_LONG_RUNS,
    .bound = tern_ternary_stride,
    .encode = encode,
    .encode_planar = encode_planar,
};

// --- Reading

#define EACH_BYTE(b) (0x0101010101010101u * (uint64_t)(b))

enum { WORD = sizeof(uint64_t) };

// Whether two neighbours among eight codes are runs. Bytes of 243 and above have the top bit set
// and at least 0x73 below it.
static inline bool has_neighbours(const uint8_t *codes)
{
    uint64_t word;
    memcpy(&word, codes, sizeof word);
    uint64_t carry = (word & EACH_BYTE(0x7f)) + EACH_BYTE(0x80 - 0x73);
    uint64_t runs = word & carry & EACH_BYTE(0x80);
    return (runs & runs >> 8) != 0;
}

// Codes before the next run of two digits or more. Zero-run coding reads them alike.
static size_t short_codes(const uint8_t *coded, size_t len)
{
    size_t i = 0;
    while (len - i >= WORD && !has_neighbours(coded + i)) {
        i += WORD - 1; // the last may be a neighbour of the next
    }
    for (; i + 1 < len; i++) {
        if (is_run(coded[i]) && is_run(coded[i + 1])) {
            return i;
        }
    }
    return len;
}

// Reads the digits of one run. Returns the codes used; *run: its length, or more than `most` if it
// is longer. most is a number of bytes in memory, so nothing overflows.
static size_t read_run(const uint8_t *coded, size_t len, size_t most, size_t *run)
{
    size_t used = 0;
    size_t value = 0;
    for (; used < len && is_run(coded[used]); used++) {
        value = value > most ? value : BASE * value + (size_t)(coded[used] - DIGIT_CODE);
    }
    *run = value + 1;
    return used;
}

// Steps back over coded bytes that expand to stride bytes in all, to before the last bytes or to a
// run of two digits, which is longer than what may hold padding.
static bool padding_is_zero(const uint8_t *coded, size_t len, size_t count)
{
    size_t at = tern_ternary_stride(count);
    size_t first = at > TERN_TERNARY_PARTS ? at - TERN_TERNARY_PARTS : 0;
    while (len > 0 && at > first) {
        uint8_t byte = coded[--len];
        if (is_run(byte) && len > 0 && is_run(coded[len - 1])) {
            return true;
        }
        at -= tern_run_length(byte);
        if (!is_run(byte) && !tern_planar_padding_is_zero(byte, at, count)) {
            return false;
        }
    }
    return true;
}

static enum tern_result check(const uint8_t *body, size_t len, size_t count)
{
    TERN_TRY(tern_ternary_check_scale(body, len));
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t left = len - TERN_TERNARY_SCALE_BYTES;
    size_t stride = tern_ternary_stride(count);
    // No code stands for less than one byte, so sums below stay under 15 * stride.
    if (left > stride) {
        return TERN_ERR_CORRUPT;
    }
    const uint8_t *start = coded;
    const uint8_t *end = coded + left;
    size_t expanded = 0;
    while (coded < end && expanded <= stride) {
        size_t used = short_codes(coded, (size_t)(end - coded));
        expanded += tern_kernel_run_facts(coded, used).expanded;
        coded += used;
        size_t run = 0;
        if (coded < end && expanded <= stride) {
            coded += read_run(coded, (size_t)(end - coded), stride - expanded, &run);
            expanded += run;
        }
    }
    if (coded < end || expanded != stride) {
        return TERN_ERR_CORRUPT;
    }
    return padding_is_zero(start, left, count) ? TERN_OK : TERN_ERR_CORRUPT;
}

// Fewer codes than this are not worth the kernels for blocks.
enum { FEW = 32 };

// Adds scale * q where q is not 0. Long runs are passed without touching memory.
static void add(const uint8_t *coded, size_t len, float scale, struct tern_ternary_target target)
{
    while (len > 0) {
        size_t used = short_codes(coded, len);
        if (used < FEW) {
            tern_kernel_ternary_add_runs(coded, used, scale, target);
        } else {
            tern_planar_add_runs(coded, used, scale, target);
        }
        target.at += tern_kernel_run_facts(coded, used).expanded;
        coded += used;
        len -= used;
        if (len > 0) {
            size_t run = 0;
            used = read_run(coded, len, target.stride, &run);
            target.at += run;
            coded += used;
            len -= used;
        }
    }
}

// 0 + scale * q is scale * q.
static void decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    memset(dst, 0, count * sizeof *dst);
    add(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES, tern_get_f32(body),
        tern_planar_target(dst, count));
}

static void accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    add(body + TERN_TERNARY_SCALE_BYTES, len - TERN_TERNARY_SCALE_BYTES,
        weight * tern_get_f32(body), tern_planar_target(acc, count));
}

static void describe(const uint8_t *body, size_t len, size_t count, struct tern_codec_info *info)
{
    (void)count;
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    size_t runs = 0;
    for (size_t i = 0; i < coded_len; i++) {
        runs += is_run(coded[i]) && (i == 0 || !is_run(coded[i - 1]));
    }
    tern_ternary_describe(body, tern_kernel_ternary_nonzero(coded, coded_len), runs, info);
}

const struct tern_mode tern_ternary_long_runs_mode = {
    .byte = TERN_MODE_TERNARY_LONG_RUNS,
    .ternary = true,
    .name = "ternary-long-runs",
    .check = check,
    .decode = decode,
    .accumulate = accumulate,
    .describe = describe,
};
