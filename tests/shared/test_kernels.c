// Every version of the kernels that this processor runs against the portable ones, bit for bit, on
// all small sizes, unaligned places and the values where rounding and comparing could go wrong.
// Plain C without a test library, so that it is also built for other processors
// (test_kernels_neon.sh).
#include "codec/kernels/paths.h"

#include "tests/sanitized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 700, LARGEST = 12000, GUARD = 64, ROOM = LARGEST + GUARD, KINDS = 6 };

static unsigned failures;

static void check(int good, const char *what, size_t count, unsigned kind)
{
    if (!good && ++failures <= 20) {
        fprintf(stderr, "%s: %s differs for %zu values of kind %u\n", tern_kernels_name(), what,
                count, kind);
    }
}

// --- Inputs

static uint32_t random_word(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static float random_between(float low, float high)
{
    return low + (high - low) * (float)(random_word() >> 8) * 0x1p-24f;
}

struct inputs {
    float scale;
    uint32_t threshold;
    float values[ROOM];
    float others[ROOM];     // to add to
    uint8_t packed[ROOM];   // bytes below 243, in runs
    uint8_t coded[ROOM];    // any bytes
    uint64_t nonzero[ROOM]; // planes
    uint64_t negative[ROOM];
};

// Values next to the threshold and to nothing, and large ones that do not overflow when doubled.
static float edge_value(const struct inputs *in)
{
    const uint32_t bits[] = {0,
                             1,
                             0x007fffff,
                             0x00800000,
                             in->threshold,
                             in->threshold + 1,
                             in->threshold > 0 ? in->threshold - 1 : 0,
                             tern_float_bits(in->scale),
                             0x7e000000,
                             0x33800000,
                             0x477fdfff,
                             0x387fffff,
                             0x38800000};
    uint32_t word = random_word();
    return tern_bits_float(bits[word % (sizeof bits / sizeof bits[0])] | (word & TERN_SIGN_BIT));
}

static float value_of_kind(const struct inputs *in, unsigned kind)
{
    switch (kind) {
    case 0:
        return random_between(-1, 1);
    case 1:
    case 2:
        return edge_value(in);
    case 3:
        return random_word() % 64 == 0 ? random_between(-1, 1) : random_between(-0.1f, 0.1f);
    case 4:
        return random_word() % 2000 == 0 ? 1.0f : -0.0f;
    default:
        return 0;
    }
}

// Stretches of zeros of all lengths between others.
static void fill_packed(uint8_t *packed, unsigned kind)
{
    for (size_t i = 0; i < ROOM;) {
        size_t zeros = random_word() % (kind == 0 ? 3 : kind < 4 ? 40 : 3000);
        for (; zeros > 0 && i < ROOM; zeros--) {
            packed[i++] = TERN_TERNARY_ZERO;
        }
        for (size_t others = random_word() % 8; others > 0 && i < ROOM; others--) {
            packed[i++] = (uint8_t)(random_word() % TERN_TERNARY_LIMIT);
        }
    }
}

static void fill(struct inputs *in, unsigned kind)
{
    in->scale = kind == 2 ? 0x1p-148f : 1.25f;
    in->threshold = tern_float_bits(in->scale * 0.5f);
    for (size_t i = 0; i < ROOM; i++) {
        in->values[i] = value_of_kind(in, kind);
        in->others[i] = value_of_kind(in, random_word() % KINDS);
        in->coded[i] = (uint8_t)(random_word() % (kind < 3 ? 256 : 243));
        in->nonzero[i] = kind < 3 ? random_word() * 0x100000001u : (random_word() % 8 == 0);
        in->negative[i] = in->nonzero[i] & (random_word() * 0x100000001u);
    }
    fill_packed(in->packed, kind);
}

// --- Outputs

// Two copies of what a kernel writes to: one for the portable kernel, one for the other. What it
// should not touch is compared, too.
struct outputs {
    float values[2][ROOM];
    uint8_t bytes[2][4 * ROOM];
    uint64_t words[2][2][ROOM / 64 + 1];
};

static struct outputs out;

// Where in the buffers the kernels begin: not aligned to their vectors.
static size_t shift;

// How many values the buffers hold around those that the kernels write.
static size_t span;

static void reset(const float *values, const uint8_t *bytes)
{
    for (int i = 0; i < 2; i++) {
        memset(out.bytes[i], 0xa5, 4 * span);
        memset(out.words[i][0], 0xa5, sizeof out.words[i][0]);
        memset(out.words[i][1], 0xa5, sizeof out.words[i][1]);
        memcpy(out.values[i], values, span * sizeof(float));
        memcpy(out.bytes[i], bytes, span);
    }
}

static int same(void)
{
    return memcmp(out.values[0], out.values[1], span * sizeof(float)) == 0 &&
           memcmp(out.bytes[0], out.bytes[1], 4 * span) == 0 &&
           memcmp(out.words[0], out.words[1], sizeof out.words[0]) == 0;
}

// --- Checks

static void check_dense(const struct inputs *in, size_t count, unsigned kind)
{
    const uint8_t *bytes = (const uint8_t *)(in->values) + shift;
    check(tern_portable_peak(in->values + shift, count) ==
              tern_kernel_peak(in->values + shift, count),
          "peak", count, kind);
    check(tern_portable_peak_bytes(bytes, count) == tern_kernel_peak_bytes(bytes, count),
          "peak_bytes", count, kind);
    check(tern_portable_float16_peak(in->coded + shift, count / 2) ==
              tern_kernel_float16_peak(in->coded + shift, count / 2),
          "float16_peak", count, kind);
    reset(in->values, in->coded);
    tern_portable_float32_put(in->values, count, out.bytes[0] + shift);
    tern_kernel_float32_put(in->values, count, out.bytes[1] + shift);
    check(same(), "float32_put", count, kind);
    reset(in->others, in->coded);
    tern_portable_float32_get((const uint8_t *)in->values, out.values[0] + shift, count);
    tern_kernel_float32_get((const uint8_t *)in->values, out.values[1] + shift, count);
    check(same(), "float32_get", count, kind);
    tern_portable_float32_add((const uint8_t *)in->others, 0.3f, out.values[0] + shift, count);
    tern_kernel_float32_add((const uint8_t *)in->others, 0.3f, out.values[1] + shift, count);
    check(same(), "float32_add", count, kind);
}

static void check_float16(const struct inputs *in, size_t count, unsigned kind)
{
    reset(in->values, in->coded);
    for (size_t i = 0; i < span; i++) { // within the range of a half
        float value = in->values[i] > 60000 || in->values[i] < -60000 ? 1 : in->values[i];
        out.values[0][i] = out.values[1][i] = value;
    }
    tern_portable_float16_put(out.values[0] + shift, count, out.bytes[0] + shift);
    tern_kernel_float16_put(out.values[1] + shift, count, out.bytes[1] + shift);
    check(same(), "float16_put", count, kind);
    static uint8_t halves[4 * ROOM];
    memcpy(halves, out.bytes[0], 4 * span);
    reset(in->others, in->coded);
    tern_portable_float16_add(halves + shift, 0.7f, out.values[0] + shift, count);
    tern_kernel_float16_add(halves + shift, 0.7f, out.values[1] + shift, count);
    check(same(), "float16_add", count, kind);
    tern_portable_float16_get(halves + shift, out.values[0] + shift, count);
    tern_kernel_float16_get(halves + shift, out.values[1] + shift, count);
    check(same(), "float16_get", count, kind);
}

static void check_pack(const struct inputs *in, size_t count, unsigned kind)
{
    size_t stride = tern_packed_stride(count);
    struct tern_columns columns = {.count = count, .len = stride};
    if (count > SMALL || random_word() % 2 == 0) { // some of the columns
        columns.first = stride > 0 ? random_word() % stride : 0;
        columns.len = (stride - columns.first) - random_word() % (stride - columns.first + 1);
    }
    reset(in->values, in->coded);
    columns.values = out.values[0] + shift;
    tern_portable_ternary_pack(columns, in->scale, in->threshold, out.bytes[0] + shift);
    columns.values = out.values[1] + shift;
    tern_kernel_ternary_pack(columns, in->scale, in->threshold, out.bytes[1] + shift);
    check(same(), "ternary_pack", count, kind);
}

static struct tern_ternary_target target_in(float *values, size_t count, size_t first, bool stream)
{
    return (struct tern_ternary_target){
        .at = values + first,
        .end = values + count,
        .stride = tern_packed_stride(count),
        .stream = stream,
    };
}

// One block somewhere in the values.
static void check_unpack(const struct inputs *in, size_t count, unsigned kind)
{
    size_t stride = tern_packed_stride(count);
    if (stride == 0) {
        return;
    }
    size_t first = random_word() % stride;
    size_t len = stride - first < TERN_TERNARY_BLOCK ? stride - first : TERN_TERNARY_BLOCK;
    const uint8_t *packed = in->packed + shift;
    reset(in->others, in->coded);
    for (int stream = 0; stream < 2; stream++) {
        tern_portable_ternary_set(packed, len, in->scale,
                                  target_in(out.values[0] + shift, count, first, stream));
        tern_kernel_ternary_set(packed, len, in->scale,
                                target_in(out.values[1] + shift, count, first, stream));
        tern_kernel_finish();
        check(same(), "ternary_set", count, kind);
    }
    reset(in->others, in->coded);
    tern_portable_ternary_add(packed, len, -in->scale,
                              target_in(out.values[0] + shift, count, first, false));
    tern_kernel_ternary_add(packed, len, -in->scale,
                            target_in(out.values[1] + shift, count, first, false));
    check(same(), "ternary_add", count, kind);
    check(tern_portable_ternary_nonzero(in->coded + shift, len) ==
              tern_kernel_ternary_nonzero(in->coded + shift, len),
          "ternary_nonzero", count, kind);
}

static struct tern_planes planes_of(int which, size_t count)
{
    return (struct tern_planes){
        .nonzero = out.words[which][0], .negative = out.words[which][1], .count = count};
}

static void mask_planes(struct tern_planes planes, const struct inputs *in)
{
    size_t words = tern_plane_words(planes.count);
    memcpy(planes.nonzero, in->nonzero, words * sizeof(uint64_t));
    memcpy(planes.negative, in->negative, words * sizeof(uint64_t));
    if (planes.count % 64 != 0) {
        planes.nonzero[words - 1] &= ~(~0ull << planes.count % 64);
        planes.negative[words - 1] &= ~(~0ull << planes.count % 64);
    }
}

static void check_planes(const struct inputs *in, size_t count, unsigned kind)
{
    reset(in->values, in->coded);
    tern_portable_planes_split(out.values[0] + shift, in->scale, in->threshold,
                               planes_of(0, count));
    tern_kernel_planes_split(out.values[1] + shift, in->scale, in->threshold, planes_of(1, count));
    check(same(), "planes_split", count, kind);
    reset(in->others, in->coded);
    mask_planes(planes_of(0, count), in);
    mask_planes(planes_of(1, count), in);
    tern_portable_planes_add(planes_of(0, count), in->scale, out.values[0] + shift);
    tern_kernel_planes_add(planes_of(1, count), in->scale, out.values[1] + shift);
    check(same(), "planes_add", count, kind);
    tern_portable_planes_set(planes_of(0, count), in->scale, out.values[0] + shift);
    tern_kernel_planes_set(planes_of(1, count), in->scale, out.values[1] + shift);
    check(same(), "planes_set", count, kind);
}

static void check_expand(const uint8_t *coded, size_t len, unsigned kind)
{
    uint8_t blocks[2][TERN_TERNARY_BLOCK_ROOM];
    for (size_t i = 0; i < len;) {
        size_t expanded[2] = {0, 0};
        size_t used = tern_portable_run_expand(coded + i, len - i, blocks[0], &expanded[0]);
        // How much goes into a block may differ, what is in it may not.
        size_t other = tern_kernel_run_expand(coded + i, len - i, blocks[1], &expanded[1]);
        size_t common = expanded[0] < expanded[1] ? expanded[0] : expanded[1];
        check(other > 0 && memcmp(blocks[0], blocks[1], common) == 0, "run_expand", len, kind);
        check(expanded[1] == tern_portable_run_facts(coded + i, other).expanded &&
                  expanded[1] <= TERN_TERNARY_BLOCK_ROOM,
              "length of run_expand", len, kind);
        i += used;
    }
}

// Bytes that are mostly runs, against the same bytes expanded.
static void check_sparse(const struct inputs *in, size_t count, unsigned kind)
{
    size_t stride = tern_packed_stride(count);
    uint8_t coded[TERN_TERNARY_BLOCK];
    uint8_t packed[TERN_TERNARY_BLOCK] = {0};
    size_t len = stride < TERN_TERNARY_BLOCK ? stride : TERN_TERNARY_BLOCK;
    for (size_t i = 0; i < len; i++) { // digits past the end, in the last four bytes, are zero
        packed[i] = i + 4 < stride ? in->packed[i] : TERN_TERNARY_ZERO;
    }
    memcpy(coded, packed, len);
    size_t coded_len = tern_portable_run_encode(coded, len);
    reset(in->others, in->coded);
    tern_portable_ternary_add(packed, len, in->scale,
                              target_in(out.values[0] + shift, count, 0, false));
    tern_kernel_ternary_add_runs(coded, coded_len, in->scale,
                                 target_in(out.values[1] + shift, count, 0, false));
    check(same(), "ternary_add_runs", count, kind);
    tern_portable_ternary_set(packed, len, in->scale,
                              target_in(out.values[0] + shift, count, 0, false));
    tern_kernel_ternary_set_runs(coded, coded_len, in->scale,
                                 target_in(out.values[1] + shift, count, 0, false));
    check(same(), "ternary_set_runs", count, kind);
}

static void check_runs(const struct inputs *in, size_t count, unsigned kind)
{
    reset(in->values, in->packed);
    uint8_t *bytes[] = {out.bytes[0] + shift, out.bytes[1] + shift};
    size_t lengths[] = {tern_portable_run_encode(bytes[0], count),
                        tern_kernel_run_encode(bytes[1], count)};
    check(lengths[0] == lengths[1] && memcmp(bytes[0], bytes[1], lengths[0]) == 0, "run_encode",
          count, kind);
    check(memcmp(bytes[0] + count, bytes[1] + count, GUARD - shift) == 0, "what follows run_encode",
          count, kind);
    check_expand(bytes[0], lengths[0], kind);
    struct tern_run_facts plain = tern_portable_run_facts(in->coded + shift, count);
    struct tern_run_facts other = tern_kernel_run_facts(in->coded + shift, count);
    check(plain.expanded == other.expanded && plain.runs == other.runs, "run_facts", count, kind);
}

static float power_of_two(int exponent)
{
    return tern_bits_float((uint32_t)(exponent + 127) << 23);
}

// As mean.c has them: no value is 2^31 units or more.
static struct tern_units units_of(const float *values, size_t count)
{
    int up = 30 + 127 - (int)(tern_portable_peak(values, count) >> 23);
    int first = up > 127 ? 127 : up;
    return (struct tern_units){.first = power_of_two(first), .second = power_of_two(up - first)};
}

static void check_compare(const struct inputs *in, size_t count, unsigned kind)
{
    for (int equal = 0; equal < 2; equal++) {
        uint32_t bits = equal ? in->threshold : tern_float_bits(in->values[0]) & ~TERN_SIGN_BIT;
        reset(in->values, in->coded);
        tern_portable_compare(in->values + shift, count / 64, bits, out.words[0][0],
                              out.words[0][1]);
        tern_kernel_compare(in->values + shift, count / 64, bits, out.words[1][0], out.words[1][1]);
        check(same(), "compare", count, kind);
        struct tern_units units = units_of(in->values + shift, count);
        struct tern_sum plain = tern_portable_sum_above(in->values + shift, count, bits, units);
        struct tern_sum other = tern_kernel_sum_above(in->values + shift, count, bits, units);
        check(plain.units == other.units && plain.taken == other.taken, "sum_above", count, kind);
    }
}

static void check_collect(const struct inputs *in, size_t count, unsigned kind)
{
    struct tern_bracket bracket = {.low = tern_float_bits(random_between(0, 0.6f)),
                                   .high = tern_float_bits(random_between(0.5f, 1))};
    if (count % 5 == 0) {
        bracket.low = 0;
    }
    size_t above[2] = {0, 0};
    size_t room = count + 64; // all versions have enough
    size_t plain =
        tern_portable_collect(in->values + shift, count, bracket, out.values[0], room, &above[0]);
    size_t other =
        tern_kernel_collect(in->values + shift, count, bracket, out.values[1], room, &above[1]);
    check(plain == other && above[0] == above[1] &&
              memcmp(out.values[0], out.values[1], plain * sizeof(float)) == 0,
          "collect", count, kind);
    size_t narrow = random_word() % (count + 1);
    size_t fewer =
        tern_kernel_collect(in->values + shift, count, bracket, out.values[1], narrow, &above[1]);
    check(fewer == narrow || (fewer == plain && above[0] == above[1]), "collect in a small room",
          count, kind);
}

static void check_all(const struct inputs *in, size_t count, unsigned kind)
{
    shift = random_word() % 32;
    span = count + GUARD;
    check_dense(in, count, kind);
    check_float16(in, count, kind);
    check_pack(in, count, kind);
    check_unpack(in, count, kind);
    check_planes(in, count, kind);
    check_runs(in, count, kind);
    check_sparse(in, count, kind);
    check_compare(in, count, kind);
    check_collect(in, count, kind);
}

static void check_version(void)
{
    static struct inputs in;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        fill(&in, kind);
        // Every size for every kind where a part ends within two vectors; then for two of them.
        for (size_t count = 0; count <= SMALL; count += count < SMALL / 2 ? 1 : 1 + kind % 3) {
            check_all(&in, count, kind);
        }
        for (unsigned i = 0; i < (FEWER_TRIALS ? 5 : 30); i++) {
            check_all(&in, SMALL + random_word() % (LARGEST - SMALL), kind);
        }
    }
}

static void check_names(void)
{
    const char *best = tern_kernels_name();
    check(tern_kernels_use("no such thing") == TERN_ERR_UNKNOWN, "an unknown name", 0, 0);
    check(strcmp(tern_kernels_name(), best) == 0, "what runs after a refusal", 0, 0);
    check(strcmp(tern_kernels_at(0), "portable") == 0, "the first name", 0, 0);
}

int main(void)
{
    check_names();
    for (size_t i = 0; tern_kernels_at(i) != NULL; i++) {
        if (tern_kernels_use(tern_kernels_at(i)) != TERN_OK) {
            printf("%s: not on this processor\n", tern_kernels_at(i));
            continue;
        }
        check_version();
        printf("%s: %u failures\n", tern_kernels_name(), failures);
    }
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
