// Run-coded bytes that are mostly runs: what few values they hold are found first and asked for
// ahead, so that memory answers many at a time.
#include "codec/kernels/kernels.h"

#include <string.h>

// The digits of a byte that are not the middle one, which stands for 0: bit `part` for each, and
// bit 8 + part for each that is below it. Codes of runs hold none. Each macro adds a digit in
// front, so the first part has the lowest bit.
#define DIGITS_1(n) (n) + 0x1010, (n), (n) + 0x0010
#define DIGITS_2(n) DIGITS_1((n) + 0x0808), DIGITS_1(n), DIGITS_1((n) + 0x0008)
#define DIGITS_3(n) DIGITS_2((n) + 0x0404), DIGITS_2(n), DIGITS_2((n) + 0x0004)
#define DIGITS_4(n) DIGITS_3((n) + 0x0202), DIGITS_3(n), DIGITS_3((n) + 0x0002)
#define DIGITS_5(n) DIGITS_4((n) + 0x0101), DIGITS_4(n), DIGITS_4((n) + 0x0001)

static const uint16_t digits_of[256] = {DIGITS_5(0)};

enum { NEGATIVE_SHIFT = 8, LITERALS = TERN_SMALL ? 64 : 256 };

// Bytes that are not zero, by where they are from the block's start.
struct literals {
    size_t count;
    uint32_t at[LITERALS];
    uint8_t byte[LITERALS];
};

// Takes coded bytes until the input ends or there is no more room; returns how many. *at moves by
// what they stand for. Without branches: literals come at random.
static size_t find_literals(const uint8_t *coded, size_t len, size_t *at, struct literals *found)
{
    // A block's bytes times 14 are far from 2^32.
    uint32_t offset = 0;
    size_t used = len < LITERALS ? len : LITERALS;
    size_t count = 0;
    for (size_t i = 0; i < used; i++) {
        found->at[count] = offset;
        found->byte[count] = coded[i];
        count += digits_of[coded[i]] != 0;
        offset += (uint32_t)tern_run_length(coded[i]);
    }
    found->count = count;
    *at += offset;
    return used;
}

static void prefetch(const struct literals *found, const float *at, size_t stride)
{
    for (size_t i = 0; i < found->count; i++) {
        // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.*): there are `count` of them
        for (unsigned left = digits_of[found->byte[i]] & 0xff; left != 0; left &= left - 1) {
            __builtin_prefetch(at + found->at[i] + (size_t)__builtin_ctz(left) * stride, 1);
        }
    }
}

static void add_literals(const struct literals *found, float scale, float *at, size_t stride)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    for (size_t i = 0; i < found->count; i++) {
        // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.*): as above
        unsigned digits = digits_of[found->byte[i]];
        for (unsigned left = digits & 0xff; left != 0; left &= left - 1) {
            unsigned part = (unsigned)__builtin_ctz(left);
            uint32_t negative = digits >> (NEGATIVE_SHIFT + part) & 1;
            // Digits past the end are zero, so they are never touched.
            at[found->at[i] + part * stride] += tern_bits_float(scale_bits ^ negative << 31);
        }
    }
}

void tern_kernel_ternary_add_runs(const uint8_t *coded, size_t len, float scale,
                                  struct tern_ternary_target target)
{
    struct literals found;
    size_t at = 0;
    for (size_t i = 0; i < len;) {
        float *start = target.at + at;
        i += find_literals(coded + i, len - i, &at, &found);
        prefetch(&found, start, target.stride);
        add_literals(&found, scale, start, target.stride);
    }
}

void tern_kernel_ternary_set_runs(const uint8_t *coded, size_t len, float scale,
                                  struct tern_ternary_target target)
{
    size_t expanded = tern_kernel_run_facts(coded, len).expanded;
    size_t room = (size_t)(target.end - target.at);
    for (size_t part = 0; part < TERN_TERNARY_PARTS && part * target.stride < room; part++) {
        size_t left = room - part * target.stride;
        memset(target.at + part * target.stride, 0,
               (expanded < left ? expanded : left) * sizeof(float));
    }
    // 0 + (scale * q) is scale * q.
    tern_kernel_ternary_add_runs(coded, len, scale, target);
}
