// The codec dgc: Deep Gradient Compression (Lin, Han, Mao, Wang, Dally, ICLR 2018), the top k of a sum v of velocities u. This
// file has the selection, momentum factor masking (u and v are cleared where v was sent) and the warm-up of the density (section
// 3.3). error_buffer.h has the momentum correction (section 3.2): u = mu u + g and v += u.
#include "codec/coders/sparse.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"

// Densities in the four stages of the warm-up.
static const float stages[] = {0.25f, 0.0625f, 0.015625f, 0.004f};
enum { STAGES = sizeof stages / sizeof stages[0] };

// Returns the density of a round, from 1. Round 0 has no warm-up.
static float density_in(const struct tern_codec *codec, uint32_t round)
{
    if (round == 0 || round > codec->warmup) {
        return codec->density;
    }
    float stage = stages[(uint64_t)(round - 1) * STAGES / codec->warmup];
    return stage > codec->density ? stage : codec->density;
}

// The first round is the densest.
static size_t dgc_bound(const struct tern_codec *codec, size_t count)
{
    return tern_sparse_bound(tern_select_count(density_in(codec, 1), count), count);
}

// Clears u where v is sent.
static void mask_velocity(const struct tern_encode_job *job, const struct tern_sparse_list *list)
{
    float *velocity = job->context->velocity;
    for (size_t i = 0; i < job->count; i++) {
        velocity[i] = list->words[i / 64] >> i % 64 & 1 ? 0 : velocity[i];
    }
}

static size_t dgc_encode(const struct tern_encode_job *job)
{
    float density = density_in(job->codec, job->context->round);
    struct tern_sparse_list list = tern_sparse_largest(job, tern_select_count(density, job->count),
                                                       dgc_bound(job->codec, job->count));
    mask_velocity(job, &list);
    return tern_sparse_encode(job, &list);
}

// --- The codec

static const struct tern_spec_parameter parameters[] = {
    TERN_SHARE_PARAMETER(1000),
    {.key = "momentum",
     .meaning = TERN_HELP("momentum of the velocity that adds up updates"),
     .range = TERN_HELP("0 to 0.999999"),
     .kind = TERN_SPEC_NUMBER,
     .offset = TERN_FIELD(momentum),
     .most = TERN_SPEC_MILLION - 1,
     .preset = 900000},
    {.key = "warmup",
     .meaning = TERN_HELP("rounds until the fraction is p; starts at 0.25, in four stages"),
     .range = TERN_HELP("0 to 100000"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(warmup),
     .most = 100000},
    TERN_INDEX_CODER_PARAMETER,
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_dgc_codec = {
    .entry = {.id = TERN_CODEC_DGC,
              .name = "dgc",
              .summary = TERN_HELP("the largest values of a sum of velocities (momentum)"),
              .source = TERN_HELP(
                  "Lin, Han, Mao, Wang, Dally: Deep Gradient Compression, ICLR 2018, section 3"),
              .good_for = TERN_HELP(
                  "thousands of rounds of one local step each, with all clients in every round"),
              .not_for = TERN_HELP("cohorts that change, or some hundred rounds: most of what a "
                                   "client learns is never sent"),
              .feedback = TERN_FEEDBACK_MOMENTUM,
              .parameters = parameters},
    .bound = dgc_bound,
    .encode = dgc_encode,
    .modes = {&tern_sparse_bitmap_mode, &tern_sparse_gaps_mode},
};

const struct tern_codec_plan tern_dgc_plan = {
    .bits = tern_plan_sparse_bits,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_never,
};
