// The matrix product that all layers use. Each element of the result is a float32 sum over k in
// rising order, whatever the vector width or the blocking, so the bits are the same on every
// platform. Pure; reentrant.
#ifndef TERN_GEMM_H
#define TERN_GEMM_H

#include <stddef.h>
#include <stdint.h>

// A matrix whose element (row, k) is at data[row * row_stride + k * k_stride].
struct tern_matrix {
    const float *data;
    size_t row_stride;
    size_t k_stride;
};

// c[m][n] += sum over k of a(m, k) * b[k][n], for m < rows, n < columns.
// b: depth rows of b_stride floats; c: rows of c_stride floats; neither overlaps a or each other.
void tern_gemm(size_t rows, size_t columns, size_t depth, struct tern_matrix a, const float *b,
               size_t b_stride, float *c, size_t c_stride);

// Like tern_gemm(), by the portable kernel, which tern_gemm() uses on machines without a faster
// one. For tests.
void tern_gemm_portable(size_t rows, size_t columns, size_t depth, struct tern_matrix a,
                        const float *b, size_t b_stride, float *c, size_t c_stride);

// Returns the floats of scratch memory that tern_gemm_transposed() needs for weights of `depth`
// columns.
size_t tern_gemm_scratch(size_t depth);

// c[m][n] += sum over k of a[m][k] * w[n][k]: like tern_gemm() with b = w transposed. a: rows of
// a_stride floats; w: `columns` rows of `depth` floats.
void tern_gemm_transposed(size_t rows, size_t columns, size_t depth, const float *a,
                          size_t a_stride, const float *w, float *scratch, float *c,
                          size_t c_stride);

#endif
