#include "tensor/gemm.h"
#include "build.h"
#include <string.h>

#if !TERN_SMALL

// Vector types of the compiler. Operations are element-wise, so a machine with narrower registers
// computes the same bits.
typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));

#define TERN_INLINE static inline __attribute__((always_inline))
#define PANEL 16  // columns of a panel, a transposed block of the weights
#define DEPTH 256 // rows of a panel; PANEL * DEPTH floats fit into the first-level cache

// c[rows][8 * vectors] += a * b with all sums in registers. rows and vectors are constants at each
// call, so the loops over them unroll.
TERN_INLINE void tile(size_t rows, size_t vectors, size_t depth, struct tern_matrix a,
                      const float *b, size_t b_stride, float *c, size_t c_stride)
{
    vec8 sum[4][2];
    for (size_t m = 0; m < rows; m++) {
        for (size_t v = 0; v < vectors; v++) {
            sum[m][v] = *(const vec8 *)(c + m * c_stride + 8 * v);
        }
    }
    for (size_t k = 0; k < depth; k++) {
        for (size_t m = 0; m < rows; m++) {
            float x = a.data[m * a.row_stride + k * a.k_stride];
            for (size_t v = 0; v < vectors; v++) {
                sum[m][v] += *(const vec8 *)(b + k * b_stride + 8 * v) * x;
            }
        }
    }
    for (size_t m = 0; m < rows; m++) {
        for (size_t v = 0; v < vectors; v++) {
            *(vec8 *)(c + m * c_stride + 8 * v) = sum[m][v];
        }
    }
}

// Computes one column, for the rest when the columns are no multiple of eight.
TERN_INLINE void column(size_t rows, size_t depth, struct tern_matrix a, const float *b,
                        size_t b_stride, float *c, size_t c_stride)
{
    float sum[4];
    for (size_t m = 0; m < rows; m++) {
        sum[m] = c[m * c_stride];
    }
    for (size_t k = 0; k < depth; k++) {
        for (size_t m = 0; m < rows; m++) {
            sum[m] += b[k * b_stride] * a.data[m * a.row_stride + k * a.k_stride];
        }
    }
    for (size_t m = 0; m < rows; m++) {
        c[m * c_stride] = sum[m];
    }
}

// Computes all rows of a stripe of columns, four rows at a time. vectors 0: a single column.
TERN_INLINE void stripe(size_t vectors, size_t rows, size_t depth, struct tern_matrix a,
                        const float *b, size_t b_stride, float *c, size_t c_stride)
{
    size_t m = 0;
    for (; m + 4 <= rows; m += 4) {
        struct tern_matrix at = {a.data + m * a.row_stride, a.row_stride, a.k_stride};
        if (vectors > 0) {
            tile(4, vectors, depth, at, b, b_stride, c + m * c_stride, c_stride);
        } else {
            column(4, depth, at, b, b_stride, c + m * c_stride, c_stride);
        }
    }
    for (; m < rows; m++) {
        struct tern_matrix at = {a.data + m * a.row_stride, a.row_stride, a.k_stride};
        if (vectors > 0) {
            tile(1, vectors, depth, at, b, b_stride, c + m * c_stride, c_stride);
        } else {
            column(1, depth, at, b, b_stride, c + m * c_stride, c_stride);
        }
    }
}

// wide: vectors per tile; a tile and its operands must fit into the machine's registers.
TERN_INLINE void gemm(size_t wide, size_t rows, size_t columns, size_t depth, struct tern_matrix a,
                      const float *b, size_t b_stride, float *c, size_t c_stride)
{
    size_t n = 0;
    for (; n + 8 * wide <= columns; n += 8 * wide) {
        stripe(wide, rows, depth, a, b + n, b_stride, c + n, c_stride);
    }
    for (; n + 8 <= columns; n += 8) {
        stripe(1, rows, depth, a, b + n, b_stride, c + n, c_stride);
    }
    for (; n < columns; n++) {
        stripe(0, rows, depth, a, b + n, b_stride, c + n, c_stride);
    }
}

void tern_gemm_portable(size_t rows, size_t columns, size_t depth, struct tern_matrix a,
                        const float *b, size_t b_stride, float *c, size_t c_stride)
{
    gemm(1, rows, columns, depth, a, b, b_stride, c, c_stride);
}

#if defined(__x86_64__) && defined(__GNUC__) && __STDC_HOSTED__
// "fma" is not enabled, because a fused product rounds once where other machines round twice.
__attribute__((target("avx2"))) static void gemm_avx2(size_t rows, size_t columns, size_t depth,
                                                      struct tern_matrix a, const float *b,
                                                      size_t b_stride, float *c, size_t c_stride)
{
    gemm(2, rows, columns, depth, a, b, b_stride, c, c_stride);
}

static int have_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define gemm_avx2 tern_gemm_portable

static int have_avx2(void)
{
    return 0;
}
#endif

void tern_gemm(size_t rows, size_t columns, size_t depth, struct tern_matrix a, const float *b,
               size_t b_stride, float *c, size_t c_stride)
{
    if (have_avx2()) {
        gemm_avx2(rows, columns, depth, a, b, b_stride, c, c_stride);
    } else {
        tern_gemm_portable(rows, columns, depth, a, b, b_stride, c, c_stride);
    }
}

size_t tern_gemm_scratch(size_t depth)
{
    return PANEL * (depth < DEPTH ? depth : DEPTH);
}

// panel[k][n] = w[n][k]
static void transpose_panel(const float *w, size_t w_stride, size_t columns, size_t depth,
                            float *panel)
{
    for (size_t k = 0; k < depth; k++) {
        for (size_t n = 0; n < columns; n++) {
            panel[k * PANEL + n] = w[n * w_stride + k];
        }
    }
}

void tern_gemm_transposed(size_t rows, size_t columns, size_t depth, const float *a,
                          size_t a_stride, const float *w, float *scratch, float *c,
                          size_t c_stride)
{
    for (size_t n = 0; n < columns; n += PANEL) {
        size_t width = columns - n < PANEL ? columns - n : PANEL;
        for (size_t k = 0; k < depth; k += DEPTH) {
            size_t part = depth - k < DEPTH ? depth - k : DEPTH;
            transpose_panel(w + n * depth + k, depth, width, part, scratch);
            struct tern_matrix at = {a + k, a_stride, 1};
            tern_gemm(rows, width, part, at, scratch, PANEL, c + n, c_stride);
        }
    }
}

#else // short loops for the flash of a small device; they need no panel

void tern_gemm_portable(size_t rows, size_t columns, size_t depth, struct tern_matrix a,
                        const float *b, size_t b_stride, float *c, size_t c_stride)
{
    for (size_t m = 0; m < rows; m++) {
        for (size_t n = 0; n < columns; n++) {
            float sum = c[m * c_stride + n];
            for (size_t k = 0; k < depth; k++) {
                sum += b[k * b_stride + n] * a.data[m * a.row_stride + k * a.k_stride];
            }
            c[m * c_stride + n] = sum;
        }
    }
}

void tern_gemm(size_t rows, size_t columns, size_t depth, struct tern_matrix a, const float *b,
               size_t b_stride, float *c, size_t c_stride)
{
    tern_gemm_portable(rows, columns, depth, a, b, b_stride, c, c_stride);
}

size_t tern_gemm_scratch(size_t depth)
{
    (void)depth;
    return 0;
}

void tern_gemm_transposed(size_t rows, size_t columns, size_t depth, const float *a,
                          size_t a_stride, const float *w, float *scratch, float *c,
                          size_t c_stride)
{
    (void)scratch;
    // Computes the transpose of c as w times the transpose of a.
    for (size_t m = 0; m < rows; m++) {
        struct tern_matrix weights = {w, depth, 1};
        tern_gemm(columns, 1, depth, weights, a + m * a_stride, 1, c + m * c_stride, 1);
    }
}

#endif
