#include "codec/coders/parallel.h"

#include <string.h>

#if !TERN_SMALL

// More threads would find no more work. The state of each partition is on the stack.
enum { PARTITIONS_MAX = 64, ALIGNMENT = 64 };

// Cuts `len` elements into partitions. Each starts at a multiple of ALIGNMENT, so that no two jobs write to the same cache line
// or word of a plane.
struct partitions {
    size_t len;
    size_t step;
    unsigned count;
};

struct partition {
    size_t first;
    size_t len;
};

static struct partitions partitions_of(const struct tern_parallel *parallel, size_t len)
{
    unsigned wanted = parallel == NULL                     ? 1
                      : parallel->workers > PARTITIONS_MAX ? PARTITIONS_MAX
                      : parallel->workers > 0              ? parallel->workers
                                                           : 1;
    size_t lines = len / ALIGNMENT + (len % ALIGNMENT != 0);
    size_t step = ALIGNMENT * (lines / wanted + (lines % wanted != 0));
    unsigned count = step > 0 ? (unsigned)(len / step + (len % step != 0)) : 0;
    return (struct partitions){.len = len, .step = step, .count = count};
}

static struct partition partition_at(const struct partitions *all, unsigned index)
{
    size_t first = all->step * index;
    size_t rest = all->len - first;
    return (struct partition){.first = first, .len = rest < all->step ? rest : all->step};
}

static void run(const struct tern_parallel *parallel, const struct partitions *partitions,
                void (*job)(void *arg, unsigned index), void *arg)
{
    if (partitions->count > 1) {
        parallel->run(parallel->ctx, job, arg, partitions->count);
    } else if (partitions->count == 1) {
        job(arg, 0);
    }
}

// --- Peak

struct peak_work {
    struct partitions partitions;
    const float *values;
    uint32_t peaks[PARTITIONS_MAX];
};

static void find_peak(void *arg, unsigned index)
{
    struct peak_work *work = arg;
    struct partition part = partition_at(&work->partitions, index);
    work->peaks[index] = tern_kernel_peak(work->values + part.first, part.len);
}

uint32_t tern_parallel_peak(const struct tern_parallel *parallel, const float *values, size_t count)
{
    struct peak_work work = {.partitions = partitions_of(parallel, count), .values = values};
    run(parallel, &work.partitions, find_peak, &work);
    uint32_t peak = 0;
    for (unsigned i = 0; i < work.partitions.count; i++) {
        peak = work.peaks[i] > peak ? work.peaks[i] : peak;
    }
    return peak;
}

// --- Symbols

struct pack_work {
    struct partitions partitions;
    struct tern_columns all;
    struct tern_planes planes;
    float scale;
    uint32_t threshold;
    uint8_t *packed;
};

static void pack(void *arg, unsigned index)
{
    const struct pack_work *work = arg;
    struct partition part = partition_at(&work->partitions, index);
    struct tern_columns columns = work->all;
    columns.first = part.first;
    columns.len = part.len;
    tern_kernel_ternary_pack(columns, work->scale, work->threshold, work->packed + part.first);
}

void tern_parallel_pack(const struct tern_parallel *parallel, struct tern_columns columns,
                        float scale, uint32_t threshold, uint8_t *packed)
{
    struct pack_work work = {
        .partitions = partitions_of(parallel, columns.len),
        .all = columns,
        .scale = scale,
        .threshold = threshold,
        .packed = packed,
    };
    run(parallel, &work.partitions, pack, &work);
}

static void split(void *arg, unsigned index)
{
    const struct pack_work *work = arg;
    struct partition part = partition_at(&work->partitions, index);
    struct tern_planes planes = {
        .nonzero = work->planes.nonzero + part.first / ALIGNMENT,
        .negative = work->planes.negative + part.first / ALIGNMENT,
        .count = part.len,
    };
    tern_kernel_planes_split(work->all.values + part.first, work->scale, work->threshold, planes);
}

void tern_parallel_split(const struct tern_parallel *parallel, float *values, float scale,
                         uint32_t threshold, struct tern_planes planes)
{
    struct pack_work work = {
        .partitions = partitions_of(parallel, planes.count),
        .all = {.values = values, .count = planes.count},
        .planes = planes,
        .scale = scale,
        .threshold = threshold,
    };
    run(parallel, &work.partitions, split, &work);
}

// --- Zero runs

struct run_work {
    struct partitions partitions;
    uint8_t *bytes;
    size_t coded[PARTITIONS_MAX]; // bytes of each coded partition
};

static void encode_runs(void *arg, unsigned index)
{
    struct run_work *work = arg;
    struct partition part = partition_at(&work->partitions, index);
    work->coded[index] = tern_kernel_run_encode(work->bytes + part.first, part.len);
}

static inline _Bool is_zeros(uint8_t coded)
{
    return coded == TERN_TERNARY_ZERO || coded >= TERN_TERNARY_LIMIT;
}

// A run of zeros at one end of a partition.
struct edge {
    size_t codes; // coded bytes
    size_t zeros; // zero bytes that the codes stand for
};

static struct edge first_run(const uint8_t *coded, size_t len)
{
    struct edge edge = {0, 0};
    for (; edge.codes < len && is_zeros(coded[edge.codes]); edge.codes++) {
        edge.zeros += tern_run_length(coded[edge.codes]);
    }
    return edge;
}

static struct edge last_run(const uint8_t *coded, size_t len)
{
    struct edge edge = {0, 0};
    for (; edge.codes < len && is_zeros(coded[len - 1 - edge.codes]); edge.codes++) {
        edge.zeros += tern_run_length(coded[len - 1 - edge.codes]);
    }
    return edge;
}

// Writes a run: full codes, then the rest. Returns the end.
static uint8_t *write_run(uint8_t *out, size_t zeros)
{
    size_t full = zeros / TERN_RUN_MAX;
    size_t rest = zeros % TERN_RUN_MAX;
    memset(out, TERN_TERNARY_LIMIT - 2 + TERN_RUN_MAX, full);
    out += full;
    if (rest > 0) {
        *out++ = rest > 1 ? (uint8_t)(TERN_TERNARY_LIMIT - 2 + rest) : TERN_TERNARY_ZERO;
    }
    return out;
}

// Joins the coded partitions. A run across a border is encoded again; this never takes more codes than before, so nothing is
// overwritten before it is read.
static size_t coalesce(const struct run_work *work)
{
    uint8_t *out = work->bytes;
    size_t open = 0; // zero bytes that are not written yet
    for (unsigned i = 0; i < work->partitions.count; i++) {
        const uint8_t *coded = work->bytes + partition_at(&work->partitions, i).first;
        size_t len = work->coded[i];
        struct edge first = first_run(coded, len);
        open += first.zeros;
        if (first.codes == len) {
            continue;
        }
        struct edge last = last_run(coded, len);
        out = write_run(out, open);
        size_t between = len - first.codes - last.codes;
        memmove(out, coded + first.codes, between);
        out += between;
        open = last.zeros;
    }
    return (size_t)(write_run(out, open) - work->bytes);
}

size_t tern_parallel_run_encode(const struct tern_parallel *parallel, uint8_t *bytes, size_t len)
{
    struct run_work work = {.partitions = partitions_of(parallel, len), .bytes = bytes};
    run(parallel, &work.partitions, encode_runs, &work);
    return work.partitions.count > 1 ? coalesce(&work) : work.coded[0];
}

#endif
