// Kernels: the inner loops of the codecs. docs/FORMAT.md fixes every bit, so all versions of a kernel give the same bits: plain
// C that gcc -O3 vectorises, and versions for wider instructions. dispatch.c chooses the fastest one that the processor
// supports. Loops have no branch that depends on a value. Callers check sizes. Pure; reentrant; any thread.
#ifndef TERN_KERNELS_H
#define TERN_KERNELS_H

#include "build.h"
#include "result.h"
#include "util/math.h"

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Every float32 expression is rounded to float32; x87 would keep wider intermediate results.
_Static_assert(FLT_EVAL_METHOD == 0, "build with SSE2 or another unit that computes in float32");

#define TERN_SIGN_BIT 0x80000000u
#define TERN_INFINITY_BITS 0x7f800000u // this magnitude is infinite; larger ones are NaN

// --- The active version (kernels/dispatch.c)

// Returns the name of a built-in version, or NULL after the last: "portable", "avx2" on x86-64, "neon" on AArch64, and
// "scalar", which microcontrollers use.
const char *tern_kernels_at(size_t index);

// Returns the name of the active version.
const char *tern_kernels_name(void);

// Activates another version, for tests and measurements; not while kernels run. NULL: the default, which is the fastest.
// TERN_ERR_UNKNOWN    no version of that name was built in
// TERN_ERR_ARGUMENT   this processor cannot run it
TERN_MUST_USE enum tern_result tern_kernels_use(const char *name);

// --- Dense values (kernels/dense.c)

// Returns the bits of the largest magnitude. The bits of magnitudes compare as integers, NaN above infinity, so the result is
// below TERN_INFINITY_BITS exactly if all values are finite.
uint32_t tern_kernel_peak(const float *values, size_t count);

// Like tern_kernel_peak(), for little-endian float32.
uint32_t tern_kernel_peak_bytes(const uint8_t *src, size_t count);

// In this header _put encodes, _get decodes, and _add adds weight times the decoded values to acc.
void tern_kernel_float32_put(const float *values, size_t count, uint8_t *dst);
void tern_kernel_float32_get(const uint8_t *src, float *dst, size_t count);
void tern_kernel_float32_add(const uint8_t *src, float weight, float *acc, size_t count);

// IEEE binary16 ("half"). Rounds to the nearest, ties to even, and leaves the residual errors in values. Magnitudes are below
// TERN_HALF_LIMIT.
#define TERN_HALF_LIMIT 65520.0f // this value and larger ones round to infinity
void tern_kernel_float16_put(float *values, size_t count, uint8_t *dst);
void tern_kernel_float16_get(const uint8_t *src, float *dst, size_t count);
void tern_kernel_float16_add(const uint8_t *src, float weight, float *acc, size_t count);

// Returns the bits of the largest magnitude; 0x7c00 is infinite, more is NaN.
uint16_t tern_kernel_float16_peak(const uint8_t *src, size_t count);

// --- Ternary digits, five per byte, planar (kernels/ternary.c)

#define TERN_TERNARY_PARTS 5
#define TERN_TERNARY_ZERO 121 // the byte of five zeros
#define TERN_TERNARY_LIMIT 243

// Returns the bytes of `count` values in packed form, which is also the distance between the values of one byte.
static inline size_t tern_packed_stride(size_t count)
{
    return count / TERN_TERNARY_PARTS + (count % TERN_TERNARY_PARTS != 0);
}

// Bytes of a block, to which expanding may add a few runs.
#define TERN_TERNARY_BLOCK (TERN_SMALL ? 128 : 1024)

// Size of the buffer for a block: eight runs of 14 bytes may start at its last byte, and each run stores two words.
#define TERN_TERNARY_BLOCK_ROOM (TERN_TERNARY_BLOCK + 128)

// Bytes first..first + len of the packed form of values[0..count). Byte j of the packed form has the values j, j + stride,
// ..., where stride = ceil(count / 5).
struct tern_columns {
    float *values;
    size_t count;
    size_t first;
    size_t len;
};

static inline struct tern_columns tern_all_columns(float *values, size_t count)
{
    return (struct tern_columns){
        .values = values, .count = count, .len = tern_packed_stride(count)};
}

// Quantizes: q is the sign of a value if the bits of its magnitude are above `threshold`, else 0. Writes the bytes of q to
// packed[0..len) and leaves the residual error, value - scale * q, in values. Other values stay unread.
void tern_kernel_ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                              uint8_t *packed);

// The destination of a block of packed bytes: byte i has the values at[i], at[i + stride], ...; values from `end` on do not
// exist.
struct tern_ternary_target {
    float *at;
    const float *end;
    size_t stride;
    bool stream; // write values past the caches; call tern_kernel_finish() after the last block
};

// So many decoded values do not stay in the caches.
#define TERN_STREAM_MIN ((size_t)4 << 20)

// Sets value = scale * q. Bytes are below TERN_TERNARY_LIMIT.
void tern_kernel_ternary_set(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target);

// Adds scale * q to values whose q is not 0.
void tern_kernel_ternary_add(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target);

// Like the two functions above, for run-coded bytes that are mostly runs. The time is proportional to `len`, not to the number
// of values (except for clearing them).
void tern_kernel_ternary_set_runs(const uint8_t *coded, size_t len, float scale,
                                  struct tern_ternary_target target);
void tern_kernel_ternary_add_runs(const uint8_t *coded, size_t len, float scale,
                                  struct tern_ternary_target target);

// Orders streamed stores before all later stores of this thread.
void tern_kernel_finish(void);

// Returns the number of q that are not 0 in packed or run-coded bytes.
size_t tern_kernel_ternary_nonzero(const uint8_t *coded, size_t len);

// --- Bit planes (kernels/planes.c)

// Ternary symbols q in index order, as two bitmaps: value i is bit i % 64 of word i / 64. Bits after the last value are 0.
struct tern_planes {
    uint64_t *nonzero;  // q != 0
    uint64_t *negative; // q < 0
    size_t count;
};

static inline size_t tern_plane_words(size_t count)
{
    return count / 64 + (count % 64 != 0);
}

// Like tern_kernel_ternary_pack(), into planes; planes.count values.
void tern_kernel_planes_split(float *values, float scale, uint32_t threshold,
                              struct tern_planes planes);

// Set value = scale * q, and add scale * q to values whose q is not 0.
void tern_kernel_planes_set(struct tern_planes planes, float scale, float *values);
void tern_kernel_planes_add(struct tern_planes planes, float scale, float *values);

// --- Zero runs (kernels/zero_run.c)

#define TERN_RUN_MAX 14

// Returns the number of packed bytes that a run-coded byte stands for.
static inline size_t tern_run_length(uint8_t coded)
{
    return coded < TERN_TERNARY_LIMIT ? 1u : (size_t)coded - (TERN_TERNARY_LIMIT - 2);
}

// Run-codes bytes[0..len) in place; returns the new length.
size_t tern_kernel_run_encode(uint8_t *bytes, size_t len);

struct tern_run_facts {
    size_t expanded; // number of bytes after expansion
    size_t runs;     // number of run codes
};
struct tern_run_facts tern_kernel_run_facts(const uint8_t *coded, size_t len);

// Expands coded[0..len) until the block is full or the input ends. Returns the number of coded bytes used. *expanded: bytes
// written, at most TERN_TERNARY_BLOCK_ROOM.
size_t tern_kernel_run_expand(const uint8_t *coded, size_t len,
                              uint8_t block[TERN_TERNARY_BLOCK_ROOM], size_t *expanded);

// --- Values of two bytes, one byte and one bit (kernels/narrow.c)

// bfloat16, the high half of a float32. Rounds to the nearest, ties to even, and leaves the residual errors in values. No value
// rounds to infinity.
void tern_kernel_bfloat16_put(float *values, size_t count, uint8_t *dst);
void tern_kernel_bfloat16_get(const uint8_t *src, float *dst, size_t count);
void tern_kernel_bfloat16_add(const uint8_t *src, float weight, float *acc, size_t count);

// Returns the bits of the largest magnitude.
uint16_t tern_kernel_bfloat16_peak(const uint8_t *src, size_t count);

// int8. q = value / scale, rounded to the nearest, ties to even, and limited to -127..127. Leaves the residual errors,
// value - q * scale, in values. scale > 0; quotients are below 2^22.
void tern_kernel_int8_put(float *values, size_t count, float scale, uint8_t *dst);
void tern_kernel_int8_get(const uint8_t *src, float scale, float *dst, size_t count);
void tern_kernel_int8_add(const uint8_t *src, float scale, float weight, float *acc, size_t count);

// Returns the lowest q.
int tern_kernel_int8_lowest(const uint8_t *src, size_t count);

// onebit: bit i % 8 of byte i / 8 is 1 if value i is negative. A value decodes to the mean of its sign.
struct tern_two_means {
    float positive;
    float negative; // a magnitude
};

// Returns the means of both signs, added up as docs/FORMAT.md specifies; 0 for a sign without values.
struct tern_two_means tern_kernel_onebit_means(const float *values, size_t count);

// Leaves the residual errors, value - decoded, in values.
void tern_kernel_onebit_put(float *values, size_t count, struct tern_two_means means, uint8_t *dst);
void tern_kernel_onebit_get(const uint8_t *src, struct tern_two_means means, float *dst,
                            size_t count);
void tern_kernel_onebit_add(const uint8_t *src, struct tern_two_means means, float weight,
                            float *acc, size_t count);

// --- Sums in a fixed order (kernels/levels.c)

// A sum in float64 has the same bits on every platform, because its order is fixed (docs/FORMAT.md, section 1): lane k adds up
// the values of index k, k + 8, ..., and then the lanes are added pairwise.
#define TERN_SUM_LANES 8
static inline double tern_sum_of_lanes(const double lanes[TERN_SUM_LANES])
{
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// --- Levels (kernels/levels.c)

// Returns the sum of the squares.
double tern_kernel_sum_square(const float *values, size_t count);

// Replaces each value by its level, with the value's sign: |value| / scale * levels, rounded up if the random number draws[i],
// taken as a fraction of 2^32, is below its fraction, else down. levels: whole, at most 2^22; magnitudes are at most scale > 0.
// Returns the highest level.
float tern_kernel_levels(float *values, size_t count, float scale, float levels,
                         const uint32_t *draws);

// Returns the value of a level; at most scale, so never infinite.
static inline float tern_level_value(float scale, float level, float levels)
{
    return scale * (level / levels);
}

// Set values to the values of signed levels, and add weight times them.
void tern_kernel_levels_set(const float *signed_levels, size_t count, float scale, float levels,
                            float *dst);
void tern_kernel_levels_add(const float *signed_levels, size_t count, float scale, float levels,
                            float weight, float *acc);

// --- Mean magnitudes (kernels/mean.c)

struct tern_mean {
    float magnitude; // finite, > 0
    uint32_t taken;  // number of values
};

// Returns the mean magnitude of the values whose magnitude, as bits, is above `threshold`; at least one is. The sum is of whole
// numbers and independent of order: magnitudes are rounded down to multiples of 2^-30 of the power of two at or below `peak`,
// the largest magnitude (docs/FORMAT.md, section 3.3, density). count < 2^32.
struct tern_mean tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold,
                                        float peak);

// Returns the best scale for a ternary payload: the mean of the K largest magnitudes, with the K whose scale leaves the least
// squared error (Li, Zhang, Liu, Ternary Weight Networks, 2016, equation 5: K magnitudes with the sum S reduce it by S^2 / K).
// Tries 16 thresholds, two per octave, down to 1/256 of `peak`, the largest magnitude, > 0.
float tern_kernel_best_mean(const float *values, size_t count, float peak);

// --- The values of largest magnitude (kernels/select.c)

// Returns ceil(density * count). The density is rounded to 6 decimals first, as in a spec string, so that the result does not
// depend on its rounding to float32. 0 < density <= 1.
size_t tern_select_count(float density, size_t count);

// The k values of largest magnitude, or all that are not 0 if there are fewer. Of equal magnitudes the lower index comes first.
struct tern_selection {
    uint32_t bits;   // all magnitudes above these bits are selected,
    size_t ties;     // and the first `ties` of exactly these bits
    size_t selected; // number of selected values
};

// Selects among finite values. 1 <= k <= count. Uses 2 KiB of stack (1 KiB if size_t has 32 bits).
struct tern_selection tern_kernel_select(const float *values, size_t count, size_t k);

// Returns the same in about one pass over many values: a sample gives the likely bounds of the k-th magnitude, and only values
// between the bounds are collected and searched. bytes: `len` bytes of working memory; count / 20 floats suffice for most data.
struct tern_selection tern_kernel_select_in(const float *values, size_t count, size_t k,
                                            void *bytes, size_t len);

// Sets bit i % 64 of words[i / 64] if value i is selected, else clears it; bits after the last value are 0.
void tern_kernel_select_mark(const float *values, size_t count, struct tern_selection selection,
                             uint64_t *words);

#endif
