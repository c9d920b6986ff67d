// The codec density: sparse ternary compression (Sattler, Wiedemann, Müller, Samek, IEEE TNNLS 2019, algorithm 1). A given
// fraction of the values, those of largest magnitude, become plus or minus their mean magnitude. The fraction bounds the bytes;
// unlike in 3LC, one outlier does not make all other values 0 (unless fit=yes).
#include "codec/coders/ternary.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"

// Returns the number of values to send, without ties.
static size_t count_of(const struct tern_codec *codec, size_t count)
{
    size_t share = tern_select_count(codec->density, count);
    size_t least = codec->least < count ? codec->least : count;
    return share > least ? share : least;
}

// Returns the bits of the largest magnitude that is not sent: just below the k-th, so that ties are sent and zeros never. Uses
// dst as working memory.
static uint32_t threshold_of(const struct tern_encode_job *job)
{
    size_t k = count_of(job->codec, job->count);
    size_t len = tern_ternary_bound(job->codec, job->count);
    uint32_t kth = tern_kernel_select_in(job->values, job->count, k, job->dst, len).bits;
    return kth > 0 ? kth - 1 : 0;
}

static size_t encode_density(const struct tern_encode_job *job)
{
    uint32_t threshold = threshold_of(job);
    if (job->codec->fit == 1) {
        uint32_t half =
            tern_float_bits(tern_kernel_best_mean(job->values, job->count, job->peak) * 0.5f);
        threshold = half > threshold ? half : threshold;
    }
    float scale = tern_kernel_mean_above(job->values, job->count, threshold, job->peak).magnitude;
    return tern_ternary_encode(job, (struct tern_threshold){.scale = scale, .bits = threshold});
}

// --- The codec

static const char *const no_or_yes[] = {"no", "yes", NULL};

static const struct tern_spec_parameter parameters[] = {
    {.key = "p",
     .meaning = TERN_HELP("fraction of the values to send, those of largest magnitude"),
     .range = TERN_HELP("0.000001 to 1"),
     .kind = TERN_SPEC_NUMBER,
     .offset = TERN_FIELD(density),
     .least = 1,
     .most = TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION / 20},
    {.key = "least",
     .meaning =
         TERN_HELP("minimum number of values to send from a tensor, or from tensors that are "
                   "encoded as one"),
     .range = TERN_HELP("0 to 1000000"),
     .kind = TERN_SPEC_WHOLE,
     .offset = TERN_FIELD(least),
     .most = TERN_SPEC_MILLION},
    {.key = "fit",
     .meaning = TERN_HELP("whether to send fewer values than p and least require if that leaves a "
                          "smaller error"),
     .range = TERN_HELP("no or yes"),
     .kind = TERN_SPEC_CHOICE,
     .offset = TERN_FIELD(fit),
     .most = 1,
     .choices = no_or_yes},
    TERN_CODER_PARAMETER(TERN_CODER_AUTO),
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_density_codec = {
    .entry = {.id = TERN_CODEC_DENSITY,
              .name = "density",
              .summary =
                  TERN_HELP("ternary: a fraction of the values, scaled by their mean magnitude"),
              .source = TERN_HELP(
                  "Sattler et al.: Robust and Communication-Efficient Federated Learning, 2019, "
                  "algorithm 1"),
              .good_for =
                  TERN_HELP("downloads, and uploads whose bytes must not depend on the values"),
              .not_for = TERN_HELP("clients that are selected a few times only: what they do not "
                                   "send waits in the error buffer (raise p)"),
              .feedback = TERN_FEEDBACK_ERROR,
              .ternary = true,
              .parameters = parameters},
    .bound = tern_ternary_bound,
    .encode = encode_density,
};

static double bits(const struct tern_codec *codec)
{
    const double fitted =
        0.4; // fraction that fit=yes sends of downloads, in the suite of docs/BENCHMARKS.md
    const double share = (double)codec->density;
    return tern_plan_ternary_bits(codec->fit == 1 && share > fitted ? fitted : share);
}

const struct tern_codec_plan tern_density_plan = {
    .bits = bits,
    .thin = tern_plan_become_density,
    .downloads = tern_plan_always,
};
