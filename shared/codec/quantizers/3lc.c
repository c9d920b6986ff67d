// The codec 3lc: 3LC's quantizer (Lim, Andersen, Kaminsky, MLSys 2019, section 3.1), ternary with the largest magnitude as
// scale. `clip` is an addition: without it, one outlier makes all other values of a tensor 0.
#include "codec/coders/ternary.h"
#include "codec/kernels/kernels.h"
#include "codec/quantizers/row.h"

// m = M * s, in the paper's terms.
static float scale_of(const struct tern_codec *codec, float peak)
{
    return peak * codec->sparsity;
}

static enum tern_result check_3lc(const struct tern_codec *codec, float peak)
{
    uint32_t bits = tern_float_bits(scale_of(codec, peak));
    return bits < TERN_INFINITY_BITS ? TERN_OK : TERN_ERR_NON_FINITE;
}

// Returns the largest float32 that is not above scale / 2. Half of an odd subnormal scale is not a float32.
static float threshold_of(float scale)
{
    float half = scale * 0.5f;
    return half + half > scale ? tern_bits_float(tern_float_bits(half) - 1) : half;
}

// Returns the largest magnitude, or clip times the mean magnitude of the values that are not 0 if that is less.
static float clipped_peak(const struct tern_encode_job *job)
{
    if (job->codec->clip == 0) {
        return job->peak;
    }
    float mean = tern_kernel_mean_above(job->values, job->count, 0, job->peak).magnitude;
    float most = job->codec->clip * mean;
    return most < job->peak ? most : job->peak;
}

static size_t encode_3lc(const struct tern_encode_job *job)
{
    float scale = scale_of(job->codec, clipped_peak(job));
    float threshold = threshold_of(scale);
    // True only if M is so small that M * s rounds up to 2 * M, or that the clipped M rounds to 0.
    if (scale == 0 || job->peak <= threshold) {
        return 0;
    }
    return tern_ternary_encode(
        job, (struct tern_threshold){.scale = scale, .bits = tern_float_bits(threshold)});
}

// --- The codec

static const struct tern_spec_parameter parameters[] = {
    {.key = "s",
     .meaning = TERN_HELP("sparsity multiplier: a larger one sends fewer values"),
     .range = TERN_HELP("1 to 1.999999"),
     .kind = TERN_SPEC_NUMBER,
     .offset = TERN_FIELD(sparsity),
     .least = TERN_SPEC_MILLION,
     .most = 2 * TERN_SPEC_MILLION - 1,
     .preset = TERN_SPEC_MILLION},
    {.key = "clip",
     .meaning =
         TERN_HELP("the scale is at most s * clip times the mean magnitude of values that are "
                   "not 0; 0 = no limit, as in the paper"),
     .range = TERN_HELP("0 to 16"),
     .kind = TERN_SPEC_NUMBER,
     .offset = TERN_FIELD(clip),
     .most = 16 * TERN_SPEC_MILLION},
    TERN_CODER_PARAMETER(TERN_CODER_ZERO_RUN),
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_3lc_codec = {
    .entry = {.id = TERN_CODEC_3LC,
              .name = "3lc",
              .summary =
                  TERN_HELP("ternary, scaled by the largest magnitude, or with clip by the mean"),
              .source = TERN_HELP("Lim, Andersen, Kaminsky: 3LC, MLSys 2019, section 3"),
              .good_for = TERN_HELP("uploads of nearly every model on metered links, best with "
                                    "coder=range"),
              .not_for = TERN_HELP(
                  "s of 1.5 or more if a client is selected less than some hundred times, "
                  "or if one large value makes all others 0 (set clip then)"),
              .feedback = TERN_FEEDBACK_ERROR,
              .ternary = true,
              .parameters = parameters},
    .bound = tern_ternary_bound,
    .check = check_3lc,
    .encode = encode_3lc,
};

// With a clip the threshold is s * clip / 2 mean magnitudes. The formula fits the fraction of values above it in updates of three
// tasks (docs/DESIGN.md, "Why 3LC has a clip").
static double bits(const struct tern_codec *codec)
{
    const double usual = 0.63; // measured at s = 1 with error feedback
    const double bound = (double)codec->sparsity * (double)codec->clip;
    return bound > 0 ? tern_plan_ternary_bits(1.0 / (1.0 + 0.65 * bound * bound))
                     : usual * (2.0 - (double)codec->sparsity);
}

const struct tern_codec_plan tern_3lc_plan = {
    .bits = bits,
    .thin = tern_plan_become_density,
    .downloads = tern_plan_always,
};
