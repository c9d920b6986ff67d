// What is done differently for large tensors gives what is done for small ones: encoding on several
// threads (3LC section 3.3: partition and coalesce), and decoding past the caches.
#include "codec/coders/parallel.h"
#include "hosted/parallel.h"
#include "tests/cases.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST = 4000, WORKERS_MAX = 9 };

static struct tern_worker_pool *pools[WORKERS_MAX + 1];

static const struct tern_parallel *workers(unsigned count)
{
    return tern_worker_pool_parallel(pools[count]);
}

static int make_pools(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= WORKERS_MAX; count++) {
        assert_int_equal(tern_worker_pool_create(count, &pools[count]), TERN_OK);
    }
    return 0;
}

static int free_pools(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= WORKERS_MAX; count++) {
        tern_worker_pool_free(pools[count]);
    }
    return 0;
}

static uint32_t random_word(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

// --- Zero runs

static void assert_runs_equal(const uint8_t *packed, size_t len, unsigned count)
{
    static uint8_t serial[LARGEST];
    static uint8_t parallel[LARGEST];
    memcpy(serial, packed, len);
    memcpy(parallel, packed, len);
    size_t coded = tern_kernel_run_encode(serial, len);
    assert_int_equal(tern_parallel_run_encode(workers(count), parallel, len), coded);
    assert_memory_equal(parallel, serial, coded);
}

// Runs end anywhere around the borders, pass over whole partitions, or are everything.
CASE(test_runs)
{
    static uint8_t packed[LARGEST];
    for (unsigned round = 0; round < 20000; round++) {
        size_t len = random_word() % LARGEST;
        memset(packed, TERN_TERNARY_ZERO, len);
        for (unsigned others = round % 12; others > 0 && len > 0; others--) {
            packed[random_word() % len] = (uint8_t)(random_word() % TERN_TERNARY_LIMIT);
        }
        assert_runs_equal(packed, len, 1 + round % WORKERS_MAX);
    }
}

CASE(test_dense_bytes)
{
    static uint8_t packed[LARGEST];
    for (unsigned round = 0; round < 2000; round++) {
        size_t len = random_word() % LARGEST;
        for (size_t i = 0; i < len; i++) {
            uint32_t word = random_word();
            packed[i] = word % 4 < round % 5 ? TERN_TERNARY_ZERO : (uint8_t)(word >> 8) % 243;
        }
        assert_runs_equal(packed, len, 1 + round % WORKERS_MAX);
    }
}

// --- Symbols

struct copies {
    float serial[LARGEST];
    float parallel[LARGEST];
};

static void fill(struct copies *copies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)(random_word() >> 8) * 0x1p-23f - 1;
        copies->serial[i] = copies->parallel[i] = value;
    }
}

CASE(test_pack)
{
    static struct copies values;
    static uint8_t packed[2][LARGEST];
    for (size_t count = 1; count < LARGEST; count += 1 + count / 16) {
        fill(&values, count);
        unsigned threads = 1 + random_word() % WORKERS_MAX;
        uint32_t half = tern_float_bits(0.5f);
        assert_int_equal(tern_parallel_peak(workers(threads), values.serial, count),
                         tern_kernel_peak(values.serial, count));
        tern_kernel_ternary_pack(tern_all_columns(values.serial, count), 1, half, packed[0]);
        tern_parallel_pack(workers(threads), tern_all_columns(values.parallel, count), 1, half,
                           packed[1]);
        assert_memory_equal(packed[0], packed[1], tern_packed_stride(count));
        assert_memory_equal(values.serial, values.parallel, count * sizeof(float));
    }
}

CASE(test_planes)
{
    static struct copies values;
    static uint64_t words[4][LARGEST / 64 + 1];
    for (size_t count = 1; count < LARGEST; count += 1 + count / 16) {
        fill(&values, count);
        struct tern_planes serial = {words[0], words[1], count};
        struct tern_planes parallel = {words[2], words[3], count};
        uint32_t half = tern_float_bits(0.5f);
        tern_kernel_planes_split(values.serial, 1, half, serial);
        tern_parallel_split(workers(1 + random_word() % WORKERS_MAX), values.parallel, 1, half,
                            parallel);
        assert_memory_equal(words[0], words[2], tern_plane_words(count) * sizeof(uint64_t));
        assert_memory_equal(words[1], words[3], tern_plane_words(count) * sizeof(uint64_t));
        assert_memory_equal(values.serial, values.parallel, count * sizeof(float));
    }
}

// --- Payloads

struct encoded {
    float *values;
    uint8_t *payload;
    size_t len;
};

static struct encoded encode(const char *spec, const float *values, size_t count,
                             const struct tern_parallel *parallel)
{
    struct tern_codec codec;
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    size_t bound = tern_codec_bound(&codec, count);
    struct encoded out = {.values = malloc(count * sizeof(float)), .payload = malloc(bound)};
    assert_non_null(out.values);
    assert_non_null(out.payload);
    memcpy(out.values, values, count * sizeof(float));
    struct tern_encode_context context = {.parallel = parallel};
    assert_int_equal(
        tern_codec_encode(&codec, &context, out.values, count, out.payload, bound, &out.len),
        TERN_OK);
    return out;
}

static void assert_encodes_equal(const char *spec, const float *values, size_t count,
                                 unsigned threads)
{
    struct encoded serial = encode(spec, values, count, NULL);
    struct encoded parallel = encode(spec, values, count, workers(threads));
    assert_int_equal(serial.len, parallel.len);
    assert_memory_equal(serial.payload, parallel.payload, serial.len);
    assert_memory_equal(serial.values, parallel.values, count * sizeof(float));
    free(serial.values);
    free(serial.payload);
    free(parallel.values);
    free(parallel.payload);
}

// Large enough that the encoder takes the threads.
CASE(test_large_tensors)
{
    static const char *const specs[] = {"3lc", "3lc:s=1.75", "3lc:coder=packed", "3lc:coder=gaps"};
    size_t most = TERN_PARALLEL_MIN + 5000;
    float *values = malloc(most * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < most; i++) {
        float value = (float)(random_word() >> 8) * 0x1p-23f - 1;
        values[i] = value * value * value * (random_word() % 50 == 0 ? 1.0f : 0.3f);
    }
    for (unsigned i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        size_t count = TERN_PARALLEL_MIN + random_word() % 5000;
        assert_encodes_equal(specs[i], values, count, 2 + random_word() % 8);
    }
    // One value at the end: a run over all partitions.
    memset(values, 0, most * sizeof *values);
    values[most - 1] = 1;
    assert_encodes_equal("3lc", values, most, 5);
    free(values);
}

// Adding to zeros decodes, too, but not past the caches.
static void assert_decodes(const char *spec, const float *values, size_t count)
{
    struct encoded encoded = encode(spec, values, count, NULL);
    float *sums = calloc(count, sizeof *sums);
    assert_non_null(sums);
    memset(encoded.values, 0xff, count * sizeof(float));
    assert_int_equal(tern_codec_decode(encoded.payload, encoded.len, encoded.values, count),
                     TERN_OK);
    assert_int_equal(tern_codec_accumulate(encoded.payload, encoded.len, 1, sums, count), TERN_OK);
    assert_memory_equal(encoded.values, sums, count * sizeof(float));
    free(sums);
    free(encoded.values);
    free(encoded.payload);
}

CASE(test_decoding_past_the_caches)
{
    size_t count = TERN_STREAM_MIN + 1234567;
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i <= count; i++) {
        uint32_t word = random_word();
        values[i] = word % 100 == 0 ? 1.0f : word % 300 == 1 ? -0.75f : 0.0f;
    }
    assert_decodes("3lc", values + 1, count);
    assert_decodes("3lc:coder=packed", values, count + 1);
    free(values);
}

// --- The pool

static void count_up(void *arg, unsigned index)
{
    unsigned *counts = arg;
    counts[index]++;
}

CASE(test_each_job_runs_once)
{
    for (unsigned jobs = 1; jobs <= 100; jobs++) {
        const struct tern_parallel *parallel = workers(1 + jobs % WORKERS_MAX);
        unsigned counts[100] = {0};
        parallel->run(parallel->ctx, count_up, counts, jobs);
        for (unsigned i = 0; i < 100; i++) {
            assert_int_equal(counts[i], i < jobs);
        }
    }
}

CASE(test_refused_pools)
{
    struct tern_worker_pool *pool = NULL;
    assert_int_equal(tern_worker_pool_create(0, &pool), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_worker_pool_create(TERN_WORKERS_MAX + 1, &pool), TERN_ERR_ARGUMENT);
    assert_null(pool);
    assert_in_range(tern_workers_available(), 1, TERN_WORKERS_MAX);
}

CASES_SHARE(make_pools, free_pools)
