// Kernels for run-coded bytes that are mostly runs: they find a batch of values that are not 0 first and prefetch them, so that
// memory latencies overlap.
#include "codec/kernels/kernels.h"

#include <string.h>

// For each byte: bit `part` is set if the digit of that part is not 1 (q is not 0), and bit 8 + part if it is 0 (q is -1). Run
// codes have no bits. Each macro prepends a digit, so the first part has the lowest bit.
#define DIGITS_1(n) (n) + 0x1010, (n), (n) + 0x0010
#define DIGITS_2(n) DIGITS_1((n) + 0x0808), DIGITS_1(n), DIGITS_1((n) + 0x0008)
#define DIGITS_3(n) DIGITS_2((n) + 0x0404), DIGITS_2(n), DIGITS_2((n) + 0x0004)
#define DIGITS_4(n) DIGITS_3((n) + 0x0202), DIGITS_3(n), DIGITS_3((n) + 0x0002)
#define DIGITS_5(n) DIGITS_4((n) + 0x0101), DIGITS_4(n), DIGITS_4((n) + 0x0001)

static const uint16_t digits_of[256] = {DIGITS_5(0)};

enum { NEGATIVE_SHIFT = 8, LITERALS = TERN_SMALL ? 64 : 256 };

// Bytes with values that are not 0, and their offsets from the block's start.
struct literals {
    size_t count;
    uint32_t at[LITERALS];
    uint8_t byte[LITERALS];
};

// Reads coded bytes until the input or the buffer ends; returns their number. Advances *at by the bytes that they stand for.
// Has no branch on bytes, which would be unpredictable.
static size_t find_literals(const uint8_t *coded, size_t len, size_t *at, struct literals *found)
{
    // LITERALS times 14 is far below 2^32.
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
        // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.*): the first `count` are set
        for (unsigned left = digits_of[found->byte[i]] & 0xff; left != 0; left &= left - 1) {
            __builtin_prefetch(at + found->at[i] + (size_t)__builtin_ctz(left) * stride, 1);
        }
    }
}

static void add_literals(const struct literals *found, float scale, float *at, size_t stride)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    for (size_t i = 0; i < found->count; i++) {
        // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.*): the first `count` are set
        unsigned digits = digits_of[found->byte[i]];
        for (unsigned left = digits & 0xff; left != 0; left &= left - 1) {
            unsigned part = (unsigned)__builtin_ctz(left);
            uint32_t negative = digits >> (NEGATIVE_SHIFT + part) & 1;
            // Padding digits have q = 0, so no value past the end is written.
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
    // Adding to 0 gives scale * q.
    tern_kernel_ternary_add_runs(coded, len, scale, target);
}
