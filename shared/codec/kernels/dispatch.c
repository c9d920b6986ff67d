// Chooses the version of the kernels: hosted programs on x86-64 ask the processor once, other builds choose at compile time.
#include "codec/kernels/paths.h"

#include <string.h>

#if TERN_KERNELS_X86 || TERN_KERNELS_NEON
#include <stdatomic.h>
#endif

// Defined here, so that the compiler of a board, which has one version, inlines the calls.
#define VALUE(scalar, type, name, parameters, arguments) .name = tern_portable_##name,
#define NOTHING(scalar, name, parameters, arguments) .name = tern_portable_##name,
const struct tern_kernels tern_kernels_portable = {
    .name = "portable",
#include "codec/kernels/kernels.def"
};
#undef VALUE
#undef NOTHING

#define VALUE(scalar, type, name, parameters, arguments) .name = tern_##scalar##_##name,
#define NOTHING(scalar, name, parameters, arguments) .name = tern_##scalar##_##name,
const struct tern_kernels tern_kernels_scalar = {
    .name = "scalar",
#include "codec/kernels/kernels.def"
};
#undef VALUE
#undef NOTHING

// --- The built-in versions

static _Bool always(void)
{
    return 1;
}

#if TERN_KERNELS_X86
// __builtin_cpu_supports() is true only if the operating system saves the wide registers, too.
static _Bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
#endif

static const struct path {
    const struct tern_kernels *kernels;
    _Bool (*runs)(void);
} paths[] = {
    {&tern_kernels_portable, always}, // faster versions follow
#if TERN_KERNELS_X86
    {&tern_kernels_avx2, has_avx2},
#endif
#if TERN_KERNELS_NEON
    {&tern_kernels_neon, always},
#endif
    {&tern_kernels_scalar, always}, // for processors without vectors only
};

enum { PATHS = sizeof paths / sizeof paths[0], LAST_WITH_VECTORS = PATHS - 2 };

const char *tern_kernels_at(size_t index)
{
    return index < PATHS ? paths[index].kernels->name : NULL;
}

static const struct path *best_path(void)
{
#if TERN_KERNELS_X86
    __builtin_cpu_init(); // constructors of the program may run before libgcc's
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

// --- The active version

#if TERN_KERNELS_X86 || TERN_KERNELS_NEON
static _Atomic(const struct tern_kernels *) chosen;

static void choose(const struct tern_kernels *kernels)
{
    atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
}

// Asks the processor once: under a hypervisor CPUID takes as long as coding a small tensor.
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
    (void)kernels; // this build has only one version
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

#define VALUE(scalar, type, name, parameters, arguments)                                           \
    type tern_kernel_##name parameters                                                             \
    {                                                                                              \
        return active()->name arguments;                                                           \
    }
#define NOTHING(scalar, name, parameters, arguments)                                               \
    void tern_kernel_##name parameters                                                             \
    {                                                                                              \
        active()->name arguments;                                                                  \
    }
#include "codec/kernels/kernels.def"

void tern_kernel_finish(void)
{
    const struct tern_kernels *kernels = active();
    if (kernels->finish != NULL) {
        kernels->finish();
    }
}
