// The codec sparse: the values of largest magnitude as float32; the others stay in the error buffer. The sparsification baseline
// of 3LC (Lim, Andersen, Kaminsky, MLSys 2019, section 5.1), with an exact selection instead of a sampled threshold. With p=0.001
// it is Sparse GD (Aji and Heafield, EMNLP 2017, section 3).
#include "codec/coders/sparse.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"

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

// --- The codec

static const struct tern_spec_parameter parameters[] = {
    TERN_SHARE_PARAMETER(50000), TERN_INDEX_CODER_PARAMETER, TERN_LAST_PARAMETER};

const struct tern_codec_row tern_sparse_codec = {
    .entry = {.id = TERN_CODEC_SPARSE,
              .name = "sparse",
              .summary =
                  TERN_HELP("the values of largest magnitude as float32; p=0.001 is Sparse GD"),
              .source =
                  TERN_HELP("Aji, Heafield: Sparse GD, EMNLP 2017, section 3; 3LC, section 5.1"),
              .good_for = TERN_HELP("keeping the largest values exactly"),
              .not_for = TERN_HELP(
                  "most links: density takes a sixth of the bytes for the same number of values"),
              .feedback = TERN_FEEDBACK_ERROR,
              .parameters = parameters},
    .bound = sparse_bound,
    .encode = sparse_encode,
    .modes = {&tern_sparse_bitmap_mode, &tern_sparse_gaps_mode},
};

const struct tern_codec_plan tern_sparse_plan = {
    .bits = tern_plan_sparse_bits,
    .thin = tern_plan_density,
    .downloads = tern_plan_always,
};
