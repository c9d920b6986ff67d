// Sparse ternary compression (Sattler, Wiedemann, Müller, Samek, IEEE TNNLS 2019, algorithm 1): the
// values of largest magnitude, a given share of all, become plus or minus their mean magnitude. The
// share bounds the bytes, and one outlier does not silence a tensor as it does under 3LC.
#include "codec/coders/ternary.h"
#include "codec/kernels/mean.h"
#include "codec/kernels/select.h"

// The largest magnitude, as bits, that is not taken: just below the k-th, so that its ties are, and
// zeros never. Until there are bytes to write, dst is scratch.
static uint32_t threshold_of(const struct tern_encode_job *job)
{
    size_t k = tern_select_count(job->codec->density, job->count);
    size_t len = tern_ternary_bound(job->codec, job->count);
    uint32_t kth = tern_kernel_select_in(job->values, job->count, k, job->dst, len).bits;
    return kth > 0 ? kth - 1 : 0;
}

static size_t encode_density(const struct tern_encode_job *job)
{
    uint32_t threshold = threshold_of(job);
    float scale = tern_kernel_mean_above(job->values, job->count, threshold, job->peak);
    return tern_ternary_encode(job, (struct tern_threshold){.scale = scale, .bits = threshold});
}

const struct tern_encoder tern_density_encoder = {
    .bound = tern_ternary_bound,
    .encode = encode_density,
};
