// Which kernels run. A hosted program on x86-64 asks the processor once; a board's compiler knows.
#include "codec/kernels/paths.h"

#include <string.h>

#if TERN_KERNELS_X86 || TERN_KERNELS_NEON
#include <stdatomic.h>
#endif

// Here, so that a board that has nothing else calls it directly.
const struct tern_kernels tern_kernels_portable = {
    .name = "portable",
    .peak = tern_portable_peak,
    .peak_bytes = tern_portable_peak_bytes,
    .float32_put = tern_portable_float32_put,
    .float32_get = tern_portable_float32_get,
    .float32_add = tern_portable_float32_add,
    .float16_put = tern_portable_float16_put,
    .float16_get = tern_portable_float16_get,
    .float16_add = tern_portable_float16_add,
    .float16_peak = tern_portable_float16_peak,
    .ternary_pack = tern_portable_ternary_pack,
    .ternary_set = tern_portable_ternary_set,
    .ternary_add = tern_portable_ternary_add,
    .ternary_nonzero = tern_portable_ternary_nonzero,
    .planes_split = tern_portable_planes_split,
    .planes_set = tern_portable_planes_set,
    .planes_add = tern_portable_planes_add,
    .run_encode = tern_portable_run_encode,
    .run_facts = tern_portable_run_facts,
    .run_expand = tern_portable_run_expand,
    .compare = tern_portable_compare,
    .collect = tern_portable_collect,
    .sum_above = tern_portable_sum_above,
};

const struct tern_kernels tern_kernels_scalar = {
    .name = "scalar",
    .peak = tern_scalar_peak,
    .peak_bytes = tern_scalar_peak_bytes,
    .float32_put = tern_portable_float32_put,
    .float32_get = tern_portable_float32_get,
    .float32_add = tern_scalar_float32_add,
    .float16_put = tern_portable_float16_put,
    .float16_get = tern_portable_float16_get,
    .float16_add = tern_portable_float16_add,
    .float16_peak = tern_portable_float16_peak,
    .ternary_pack = tern_scalar_ternary_pack,
    .ternary_set = tern_scalar_ternary_set,
    .ternary_add = tern_scalar_ternary_add,
    .ternary_nonzero = tern_portable_ternary_nonzero,
    .planes_split = tern_scalar_planes_split,
    .planes_set = tern_portable_planes_set,
    .planes_add = tern_portable_planes_add,
    .run_encode = tern_portable_run_encode,
    .run_facts = tern_portable_run_facts,
    .run_expand = tern_portable_run_expand,
    .compare = tern_portable_compare,
    .collect = tern_portable_collect,
    .sum_above = tern_scalar_sum_above,
};

// --- What there is
// -------------------------------------------------------------------------------

static _Bool always(void)
{
    return 1;
}

#if TERN_KERNELS_X86
// Supported means that the operating system saves the wide registers, too.
static _Bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

static _Bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static _Bool has_avx512_vbmi2(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vbmi2");
}
#endif

static const struct path {
    const struct tern_kernels *kernels;
    _Bool (*runs)(void);
} paths[] = {
    {&tern_kernels_portable, always}, // from here on the best is last
#if TERN_KERNELS_X86
    {&tern_kernels_avx2, has_avx2},
    {&tern_kernels_avx512, has_avx512},
    {&tern_kernels_avx512_vbmi2, has_avx512_vbmi2},
#endif
#if TERN_KERNELS_NEON
    {&tern_kernels_neon, always},
#endif
    {&tern_kernels_scalar, always}, // not where the compiler finds vectors
};

enum { PATHS = sizeof paths / sizeof paths[0], LAST_WITH_VECTORS = PATHS - 2 };

const char *tern_kernels_at(size_t index)
{
    return index < PATHS ? paths[index].kernels->name : NULL;
}

static const struct path *best_path(void)
{
#if TERN_KERNELS_X86
    __builtin_cpu_init(); // constructors of the program may run before that of libgcc
#endif
    size_t best = TERN_KERNELS_SCALAR ? PATHS - 1 : LAST_WITH_VECTORS;
    while (!paths[best].runs()) {
        best--;
    }
    return &paths[best];
}

static const struct path *path_named(const char *name)
{
    enum { NAME_MAX = 32 };
    for (size_t i = 0; i < PATHS; i++) {
        if (strncmp(paths[i].kernels->name, name, NAME_MAX) == 0) {
            return &paths[i];
        }
    }
    return NULL;
}

// --- What runs
// -------------------------------------------------------------------------------

#if TERN_KERNELS_X86 || TERN_KERNELS_NEON
static _Atomic(const struct tern_kernels *) chosen;

static void choose(const struct tern_kernels *kernels)
{
    atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
}

// Asked once: under a hypervisor the question costs as much as coding a small tensor.
static const struct tern_kernels *active(void)
{
    const struct tern_kernels *kernels = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (kernels == NULL) {
        kernels = best_path()->kernels;
        choose(kernels);
    }
    return kernels;
}
#else
static void choose(const struct tern_kernels *kernels)
{
    (void)kernels; // there is one
}

static const struct tern_kernels *active(void)
{
    return TERN_KERNELS_SCALAR ? &tern_kernels_scalar : &tern_kernels_portable;
}
#endif

const char *tern_kernels_name(void)
{
    return active()->name;
}

enum tern_result tern_kernels_use(const char *name)
{
    const struct path *path = name != NULL ? path_named(name) : best_path();
    if (path == NULL) {
        return TERN_ERR_UNKNOWN;
    }
    if (!path->runs()) {
        return TERN_ERR_ARGUMENT;
    }
    choose(path->kernels);
    return TERN_OK;
}

// --- Calls
// -------------------------------------------------------------------------------

uint32_t tern_kernel_peak(const float *values, size_t count)
{
    return active()->peak(values, count);
}

uint32_t tern_kernel_peak_bytes(const uint8_t *src, size_t count)
{
    return active()->peak_bytes(src, count);
}

void tern_kernel_float32_put(const float *values, size_t count, uint8_t *dst)
{
    active()->float32_put(values, count, dst);
}

void tern_kernel_float32_get(const uint8_t *src, float *dst, size_t count)
{
    active()->float32_get(src, dst, count);
}

void tern_kernel_float32_add(const uint8_t *src, float weight, float *acc, size_t count)
{
    active()->float32_add(src, weight, acc, count);
}

void tern_kernel_float16_put(float *values, size_t count, uint8_t *dst)
{
    active()->float16_put(values, count, dst);
}

void tern_kernel_float16_get(const uint8_t *src, float *dst, size_t count)
{
    active()->float16_get(src, dst, count);
}

void tern_kernel_float16_add(const uint8_t *src, float weight, float *acc, size_t count)
{
    active()->float16_add(src, weight, acc, count);
}

uint16_t tern_kernel_float16_peak(const uint8_t *src, size_t count)
{
    return active()->float16_peak(src, count);
}

void tern_kernel_ternary_pack_columns(struct tern_columns columns, float scale, uint32_t threshold,
                                      uint8_t *packed)
{
    active()->ternary_pack(columns, scale, threshold, packed);
}

void tern_kernel_ternary_pack(float *values, size_t count, float scale, uint32_t threshold,
                              uint8_t *packed)
{
    struct tern_columns all = {.values = values, .count = count, .len = tern_packed_stride(count)};
    active()->ternary_pack(all, scale, threshold, packed);
}

void tern_kernel_ternary_set(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target)
{
    active()->ternary_set(packed, len, scale, target);
}

void tern_kernel_ternary_add(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target)
{
    active()->ternary_add(packed, len, scale, target);
}

size_t tern_kernel_ternary_nonzero(const uint8_t *coded, size_t len)
{
    return active()->ternary_nonzero(coded, len);
}

void tern_kernel_finish(void)
{
    const struct tern_kernels *kernels = active();
    if (kernels->finish != NULL) {
        kernels->finish();
    }
}

void tern_kernel_planes_split(float *values, float scale, uint32_t threshold,
                              struct tern_planes planes)
{
    active()->planes_split(values, scale, threshold, planes);
}

void tern_kernel_planes_set(struct tern_planes planes, float scale, float *values)
{
    active()->planes_set(planes, scale, values);
}

void tern_kernel_planes_add(struct tern_planes planes, float scale, float *values)
{
    active()->planes_add(planes, scale, values);
}

size_t tern_kernel_run_encode(uint8_t *bytes, size_t len)
{
    return active()->run_encode(bytes, len);
}

struct tern_run_facts tern_kernel_run_facts(const uint8_t *coded, size_t len)
{
    return active()->run_facts(coded, len);
}

size_t tern_kernel_run_expand(const uint8_t *coded, size_t len,
                              uint8_t block[TERN_TERNARY_BLOCK_ROOM], size_t *expanded)
{
    return active()->run_expand(coded, len, block, expanded);
}

void tern_kernel_compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                         uint64_t *equal)
{
    active()->compare(values, words, bits, above, equal);
}

size_t tern_kernel_collect(const float *values, size_t count, struct tern_bracket bracket,
                           float *dst, size_t room, size_t *above)
{
    return active()->collect(values, count, bracket, dst, room, above);
}

struct tern_sum tern_kernel_sum_above(const float *values, size_t count, uint32_t threshold,
                                      struct tern_units units)
{
    return active()->sum_above(values, count, threshold, units);
}
