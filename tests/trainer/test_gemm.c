// Every kernel gives the bits of three plain loops, for sizes that end in every kind of remainder.
#include "tensor/gemm.h"
#include "util/prng.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

#define ROOM 40000

static float a[ROOM], b[ROOM], start[ROOM], expected[ROOM], actual[ROOM], scratch[16 * 256];

static void fill(float *values, uint32_t stream)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, stream, 0);
    for (size_t i = 0; i < ROOM; i++) {
        values[i] = (tern_prng_float(&rng) - 0.5f) * (i % 97 == 0 ? 1e6f : 1.0f);
    }
}

static void plain(size_t rows, size_t columns, size_t depth, struct tern_matrix m, size_t stride)
{
    memcpy(expected, start, sizeof expected);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            float sum = expected[i * stride + j];
            for (size_t k = 0; k < depth; k++) {
                sum += b[k * stride + j] * m.data[i * m.row_stride + k * m.k_stride];
            }
            expected[i * stride + j] = sum;
        }
    }
}

static void check(size_t rows, size_t columns, size_t depth, struct tern_matrix m)
{
    size_t stride = columns + 3;
    plain(rows, columns, depth, m, stride);
    memcpy(actual, start, sizeof actual);
    tern_gemm(rows, columns, depth, m, b, stride, actual, stride);
    assert_memory_equal(actual, expected, sizeof actual);
    memcpy(actual, start, sizeof actual);
    tern_gemm_portable(rows, columns, depth, m, b, stride, actual, stride);
    assert_memory_equal(actual, expected, sizeof actual);
}

static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40};
#define SIZES (sizeof sizes / sizeof sizes[0])

CASE(products_have_the_bits_of_plain_loops)
{
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t j = 0; j < SIZES; j++) {
            for (size_t k = 0; k < SIZES; k += 2) {
                check(sizes[i], sizes[j], sizes[k], (struct tern_matrix){a, sizes[k], 1});
                check(sizes[i], sizes[j], sizes[k], (struct tern_matrix){a, 1, sizes[i]});
            }
        }
    }
}

CASE(transposed_products_have_the_bits_of_plain_loops)
{
    const size_t depths[] = {1, 9, 255, 256, 257, 600};
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            size_t depth = depths[d];
            size_t columns = sizes[i];
            static float w[ROOM];
            for (size_t n = 0; n < columns; n++) {
                for (size_t k = 0; k < depth; k++) {
                    w[n * depth + k] = b[k * (columns + 3) + n];
                }
            }
            plain(6, columns, depth, (struct tern_matrix){a, depth, 1}, columns + 3);
            memcpy(actual, start, sizeof actual);
            assert_true(tern_gemm_scratch(depth) <= 16 * 256);
            tern_gemm_transposed(6, columns, depth, a, depth, w, scratch, actual, columns + 3);
            assert_memory_equal(actual, expected, sizeof actual);
        }
    }
}

int main(void)
{
    fill(a, 1);
    fill(b, 2);
    fill(start, 3);
    return test_cases_run(&cases_of_this_file, __FILE__);
}
