// The values of largest magnitude, as they are; what is not sent stays in the error buffer. The
// sparsification that 3LC is compared with (Lim, Andersen, Kaminsky, MLSys 2019, section 5.1), with
// an exact choice in place of a sampled threshold. With p=0.001 it is Sparse GD (Aji and Heafield,
// EMNLP 2017, section 3).
#include "codec/coders/sparse.h"
#include "codec/kernels/select.h"

static size_t sparse_bound(const struct tern_codec *codec, size_t count)
{
    return tern_sparse_bound(tern_select_count(codec->density, count), count);
}

static size_t sparse_encode(const struct tern_encode_job *job)
{
    size_t k = tern_select_count(job->codec->density, job->count);
    struct tern_sparse_list list =
        tern_sparse_largest(job, k, sparse_bound(job->codec, job->count));
    return tern_sparse_encode(job, &list);
}

const struct tern_encoder tern_sparse_encoder = {
    .bound = sparse_bound,
    .encode = sparse_encode,
};
