// Encodes one large tensor on several threads: partitions it and joins the results (3LC, section 3.3). The bits are the same as
// on one thread. parallel: NULL is the calling thread. Internal to shared/codec.
#ifndef TERN_PARALLEL_H
#define TERN_PARALLEL_H

#include "build.h"
#include "codec/kernels/kernels.h"
#include "codec/modes.h"

// Returns the threads for a job; NULL if the job is too small to be worth waking them.
#define TERN_PARALLEL_MIN ((size_t)1 << 20) // values
static inline const struct tern_parallel *tern_parallel_of(const struct tern_encode_job *job)
{
    return job->count < TERN_PARALLEL_MIN ? NULL : job->context->parallel;
}

// Like tern_kernel_peak(), tern_kernel_ternary_pack(), tern_kernel_planes_split() and tern_kernel_run_encode(). A small build
// has no threads.
#if TERN_SMALL
#define tern_parallel_peak(parallel, ...) ((void)(parallel), tern_kernel_peak(__VA_ARGS__))
#define tern_parallel_pack(parallel, ...) ((void)(parallel), tern_kernel_ternary_pack(__VA_ARGS__))
#define tern_parallel_split(parallel, ...) ((void)(parallel), tern_kernel_planes_split(__VA_ARGS__))
#define tern_parallel_run_encode(parallel, ...)                                                    \
    ((void)(parallel), tern_kernel_run_encode(__VA_ARGS__))
#else
uint32_t tern_parallel_peak(const struct tern_parallel *parallel, const float *values,
                            size_t count);
// columns: all columns of a tensor.
void tern_parallel_pack(const struct tern_parallel *parallel, struct tern_columns columns,
                        float scale, uint32_t threshold, uint8_t *packed);
void tern_parallel_split(const struct tern_parallel *parallel, float *values, float scale,
                         uint32_t threshold, struct tern_planes planes);
size_t tern_parallel_run_encode(const struct tern_parallel *parallel, uint8_t *bytes, size_t len);

#endif

#endif
