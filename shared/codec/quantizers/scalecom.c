// The codec scalecom: ScaleCom (Chen, Ni, Lu, Cui, Chen, Sun, Wang, Venkataramani, Srinivasan, Zhang, Gopalakrishnan, NeurIPS
// 2020, section 3), cyclic local top-k. The leader of a round chooses the indices of its own largest values, and all clients send
// their values at these indices, so that the sum of all updates is as sparse as one. error_buffer.h has the low-pass filter of
// the error buffer (section 3, equation 5).
#include "codec/coders/index_sets.h"
#include "codec/coders/sparse.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"
#include <string.h>

static size_t largest_count(const struct tern_codec *codec, size_t count)
{
    return tern_select_count(codec->density, count);
}

static size_t scalecom_bound(const struct tern_codec *codec, size_t count)
{
    return tern_sparse_bound(largest_count(codec, count), count);
}

// Opens the leader's indices of this segment. Returns false if there are none.
static bool open_indices(const struct tern_encode_job *job, struct tern_index_set *set)
{
    const struct tern_encode_context *context = job->context;
    return context->indices_len > 0 && context->indices[0] == TERN_MODE_SPARSE_INDICES &&
           tern_index_set_open(context->indices + 1, context->indices_len - 1, 0, job->count, set);
}

static enum tern_result scalecom_check(const struct tern_encode_job *job)
{
    const struct tern_encode_context *context = job->context;
    if (context->indices == NULL ||
        (context->indices_len == 1 && context->indices[0] == TERN_MODE_ZERO)) {
        return TERN_OK;
    }
    struct tern_index_set set;
    if (!open_indices(job, &set) || set.members > largest_count(job->codec, job->count)) {
        return TERN_ERR_CORRUPT;
    }
    return tern_index_set_check(&set);
}

// Lists the values at the leader's indices. `listed` is 0 if all these values are 0.
static struct tern_sparse_list list_indices(const struct tern_encode_job *job)
{
    struct tern_sparse_list list = {
        .words = tern_sparse_words(job, scalecom_bound(job->codec, job->count))};
    struct tern_index_set set;
    if (!open_indices(job, &set)) {
        return list;
    }
    memset(list.words, 0, sizeof *list.words * tern_plane_words(job->count));
    struct tern_index_reader reader = {.set = &set};
    bool any = false;
    for (size_t i = 0; i < set.members; i++) {
        size_t index = tern_index_next(&reader);
        list.words[index / 64] |= 1ull << index % 64;
        any = any || job->values[index] != 0;
    }
    list.listed = any ? set.members : 0;
    return list;
}

static size_t scalecom_encode(const struct tern_encode_job *job)
{
    struct tern_sparse_list list =
        job->context->indices != NULL
            ? list_indices(job)
            : tern_sparse_largest(job, largest_count(job->codec, job->count),
                                  scalecom_bound(job->codec, job->count));
    return list.listed > 0 ? tern_sparse_encode(job, &list) : 0;
}

// --- The codec

static const struct tern_spec_parameter parameters[] = {
    TERN_SHARE_PARAMETER(10000),
    {.key = "beta",
     .meaning = TERN_HELP("coefficient of the error buffer's low-pass filter; 1 = no filter"),
     .range = TERN_HELP("0.000001 to 1"),
     .kind = TERN_SPEC_NUMBER,
     .offset = TERN_FIELD(filter),
     .least = 1,
     .most = TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION},
    TERN_INDEX_CODER_PARAMETER,
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_scalecom_codec = {
    .entry = {.id = TERN_CODEC_SCALECOM,
              .name = "scalecom",
              .summary = TERN_HELP("the values at the indices that the round's leader chose"),
              .source = TERN_HELP("Chen et al.: ScaleCom, NeurIPS 2020, section 3"),
              .good_for = TERN_HELP(
                  "groups of clients with similar data that all take part in thousands of rounds"),
              .not_for = TERN_HELP("clients with different data, or changing cohorts: the leader's "
                                   "values suit only a few"),
              .feedback = TERN_FEEDBACK_FILTERED,
              .parameters = parameters,
              .follows_leader = true},
    .bound = scalecom_bound,
    .check_context = scalecom_check,
    .encode = scalecom_encode,
    .modes = {&tern_sparse_bitmap_mode, &tern_sparse_gaps_mode},
};

const struct tern_codec_plan tern_scalecom_plan = {
    .bits = tern_plan_sparse_bits,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_never,
};
