// The inner loops of the codecs. What a value becomes is fixed bit by bit (docs/FORMAT.md), so
// every version of a kernel gives the same bits: plain C that gcc -O3 turns into SIMD, and versions
// for wider instructions, of which the best that the processor has is chosen at run time
// (dispatch.c). Sizes are checked by the callers. Pure; reentrant; any thread.
#ifndef TERN_KERNELS_H
#define TERN_KERNELS_H

#include "build.h"
#include "result.h"
#include "util/float_bits.h"

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Every float32 expression is rounded once, to float32: no wider intermediates (x87).
_Static_assert(FLT_EVAL_METHOD == 0, "build with SSE2 or another unit that computes in float32");

#define TERN_SIGN_BIT 0x80000000u
#define TERN_INFINITY_BITS 0x7f800000u // magnitudes from here on are infinite or NaN

// --- Which version runs (kernels/dispatch.c)

// Names of the versions that were built in, "portable" first; NULL at the end. Beside it there are
// "avx2" on x86-64, "neon" on AArch64, and "scalar", which runs on microcontrollers.
const char *tern_kernels_at(size_t index);

// The version that runs.
const char *tern_kernels_name(void);

// From now on runs another version, for tests and measurements; not while kernels run. NULL: the
// best, which is what runs anyway.
// TERN_ERR_UNKNOWN    no version of that name was built in
// TERN_ERR_ARGUMENT   this processor cannot run it
TERN_MUST_USE enum tern_result tern_kernels_use(const char *name);

// --- Dense values (kernels/dense.c)

// Bits of the largest magnitude. Magnitudes compare as integers, NaN above infinity, so the result
// is below TERN_INFINITY_BITS exactly when all values are finite.
uint32_t tern_kernel_peak(const float *values, size_t count);

// As above, of little-endian float32 in bytes.
uint32_t tern_kernel_peak_bytes(const uint8_t *src, size_t count);

void tern_kernel_float32_put(const float *values, size_t count, uint8_t *dst);
void tern_kernel_float32_get(const uint8_t *src, float *dst, size_t count);
void tern_kernel_float32_add(const uint8_t *src, float weight, float *acc, size_t count);

// Rounds to the nearest half, ties to even, and leaves what was lost in values. Magnitudes are
// below TERN_HALF_LIMIT.
#define TERN_HALF_LIMIT 65520.0f // from here on a value rounds to infinity
void tern_kernel_float16_put(float *values, size_t count, uint8_t *dst);
void tern_kernel_float16_get(const uint8_t *src, float *dst, size_t count);
void tern_kernel_float16_add(const uint8_t *src, float weight, float *acc, size_t count);

// The largest half without its sign; from 0x7c00 on it is infinite or NaN.
uint16_t tern_kernel_float16_peak(const uint8_t *src, size_t count);

// --- Five ternary digits a byte, planar (kernels/ternary.c)

#define TERN_TERNARY_PARTS 5
#define TERN_TERNARY_ZERO 121 // the byte of five zeros
#define TERN_TERNARY_LIMIT 243

// Bytes of `count` values in packed form.
static inline size_t tern_packed_stride(size_t count)
{
    return count / TERN_TERNARY_PARTS + (count % TERN_TERNARY_PARTS != 0);
}

// Bytes that a kernel below takes at most, but for a few runs.
#define TERN_TERNARY_BLOCK (TERN_SMALL ? 128 : 1024)

// Room for a block: the last byte of it may begin eight runs of 14, and two words are stored for a
// run.
#define TERN_TERNARY_BLOCK_ROOM (TERN_TERNARY_BLOCK + 128)

// Bytes first..first + len of the packed form of values[0..count): byte j of it holds the values j,
// j + stride, ..., where stride = ceil(count / 5).
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

// q = sign of the value where its magnitude, as bits, is above `threshold`, else 0. Writes the
// bytes of q to packed[0..len) and leaves value - scale * q in values. Touches no other values.
void tern_kernel_ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                              uint8_t *packed);

// Where a block of packed bytes lands: byte i of it holds the values at[i], at[i + stride], ...,
// of which those before `end` exist.
struct tern_ternary_target {
    float *at;
    const float *end;
    size_t stride;
    bool stream; // values past the caches; tern_kernel_finish() follows the last block
};

// From this many values on, what is decoded would not stay in the caches.
#define TERN_STREAM_MIN ((size_t)4 << 20)

// value = scale * q. Bytes are below TERN_TERNARY_LIMIT.
void tern_kernel_ternary_set(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target);

// value += scale * q where q is not 0.
void tern_kernel_ternary_add(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target);

// As the two above, for run-coded bytes that are mostly runs: the time goes with `len` (set: and
// with the values to clear), not with the values.
void tern_kernel_ternary_set_runs(const uint8_t *coded, size_t len, float scale,
                                  struct tern_ternary_target target);
void tern_kernel_ternary_add_runs(const uint8_t *coded, size_t len, float scale,
                                  struct tern_ternary_target target);

// Orders streamed stores before all that this thread stores later.
void tern_kernel_finish(void);

// Digits of q that are not 0 in packed or run-coded bytes.
size_t tern_kernel_ternary_nonzero(const uint8_t *coded, size_t len);

// --- Bit planes (kernels/planes.c)

// Ternary symbols in index order: value i is bit i % 64 of word i / 64. Bits past count are 0.
struct tern_planes {
    uint64_t *nonzero;  // q != 0
    uint64_t *negative; // q < 0
    size_t count;
};

static inline size_t tern_plane_words(size_t count)
{
    return count / 64 + (count % 64 != 0);
}

// As tern_kernel_ternary_pack(), into planes; planes.count values.
void tern_kernel_planes_split(float *values, float scale, uint32_t threshold,
                              struct tern_planes planes);

// value = scale * q, and value += scale * q where q is not 0.
void tern_kernel_planes_set(struct tern_planes planes, float scale, float *values);
void tern_kernel_planes_add(struct tern_planes planes, float scale, float *values);

// --- Zero runs (kernels/zero_run.c)

#define TERN_RUN_MAX 14

// Bytes that a run-coded byte stands for.
static inline size_t tern_run_length(uint8_t coded)
{
    return coded < TERN_TERNARY_LIMIT ? 1u : (size_t)coded - (TERN_TERNARY_LIMIT - 2);
}

// Run-codes bytes[0..len) in place; returns the new length.
size_t tern_kernel_run_encode(uint8_t *bytes, size_t len);

// What run-coded bytes stand for.
struct tern_run_facts {
    size_t expanded; // bytes after expansion
    size_t runs;     // bytes that are runs
};
struct tern_run_facts tern_kernel_run_facts(const uint8_t *coded, size_t len);

// Expands coded[0..len) until the block is full or the input ends. Returns the coded bytes used;
// *expanded: the bytes written, at most TERN_TERNARY_BLOCK_ROOM.
size_t tern_kernel_run_expand(const uint8_t *coded, size_t len,
                              uint8_t block[TERN_TERNARY_BLOCK_ROOM], size_t *expanded);

#endif
