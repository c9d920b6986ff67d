// The codec stochastic-ternary: TernGrad (Wen et al., NeurIPS 2017, section 3.1) without clipping, a baseline of 3LC (section 5).
// A value x becomes its sign with probability |x| / M, where M is the largest magnitude, else 0. The expected value is x, so
// there is no error feedback.
#include "codec/coders/ternary.h"
#include "codec/quantizers/row.h"

enum { DRAWS = 256 }; // random numbers at once

// Keeps value i if u * M < |x|, where u is the random number draws[i] in [0, 1), else clears it. Returns the bitwise or of the
// kept values. SSE2 has only signed conversions.
static uint32_t clear_block(float *values, const uint32_t *draws, size_t count, float peak)
{
    uint32_t any = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        float limit = (float)(int32_t)(draws[i] >> 8) * 0x1p-24f * peak;
        uint32_t taken = limit < tern_bits_float(bits & ~TERN_SIGN_BIT) ? ~0u : 0u;
        values[i] = tern_bits_float(bits & taken);
        any |= bits & taken;
    }
    return any;
}

// Sends the signs of the values that clear_block() keeps.
static size_t encode_stochastic(const struct tern_encode_job *job)
{
    struct tern_prng rng = tern_codec_stream(job->context, 0);
    uint32_t any = 0;
    for (size_t first = 0; first < job->count; first += DRAWS) {
        size_t here = job->count - first < DRAWS ? job->count - first : DRAWS;
        uint32_t draws[DRAWS];
        tern_prng_fill(&rng, draws, here);
        any |= clear_block(job->values + first, draws, here, job->peak);
    }
    if (any == 0) {
        return 0;
    }
    return tern_ternary_encode(job, (struct tern_threshold){.scale = job->peak, .bits = 0});
}

// --- The codec

static const struct tern_spec_parameter parameters[] = {
    TERN_CODER_PARAMETER(TERN_CODER_ZERO_RUN),
    TERN_LAST_PARAMETER,
};

const struct tern_codec_row tern_stochastic_ternary_codec = {
    .entry = {.id = TERN_CODEC_STOCHASTIC_TERNARY,
              .name = "stochastic-ternary",
              .summary = TERN_HELP("ternary: signs at random, so that the expected value is exact"),
              .source = TERN_HELP("Wen et al.: TernGrad, NeurIPS 2017, section 3.1"),
              .good_for =
                  TERN_HELP("clients that rarely take part, or cannot keep an error buffer"),
              .not_for =
                  TERN_HELP("small cohorts: only the mean of many updates reduces its noise"),
              .feedback = TERN_FEEDBACK_NONE,
              .random = true,
              .ternary = true,
              .parameters = parameters},
    .bound = tern_ternary_bound,
    .encode = encode_stochastic,
};

const struct tern_codec_plan tern_stochastic_ternary_plan = {
    .fixed_bits = 1.0,
    .thin = tern_plan_no_density,
    .downloads = tern_plan_never,
};
