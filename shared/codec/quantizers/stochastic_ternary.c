// Stochastic ternary quantization, TernGrad (Wen et al., NeurIPS 2017, section 3.1) without
// clipping, as 3LC compares itself with (section 5): the sign of a value with probability |x| / M,
// else 0, so that the expected value is x and nothing is fed back.
#include "codec/coders/ternary.h"
#include "codec/quantizers/random.h"

enum { WORD = 64 };

// Takes value i where u * M < |x|, u being draw i. Returns whether any is.
static bool draw_symbols(const struct tern_encode_job *job, struct tern_planes planes)
{
    struct tern_prng rng = tern_codec_stream(job->context, 0);
    uint64_t any = 0;
    for (size_t first = 0; first < job->count; first += WORD) {
        size_t here = job->count - first < WORD ? job->count - first : WORD;
        uint32_t draws[WORD];
        uint64_t nonzero = 0;
        uint64_t negative = 0;
        tern_prng_fill(&rng, draws, here);
        for (size_t i = 0; i < here; i++) {
            uint32_t bits = tern_float_bits(job->values[first + i]);
            float limit = (float)(draws[i] >> 8) * 0x1p-24f * job->peak;
            bool taken = limit < tern_bits_float(bits & ~TERN_SIGN_BIT);
            nonzero |= (uint64_t)taken << i;
            negative |= (uint64_t)(taken && (bits & TERN_SIGN_BIT) != 0) << i;
        }
        planes.nonzero[first / WORD] = nonzero;
        planes.negative[first / WORD] = negative;
        any |= nonzero;
    }
    return any != 0;
}

static size_t encode_stochastic(const struct tern_encode_job *job)
{
    struct tern_planes planes = tern_ternary_planes(job);
    if (!draw_symbols(job, planes)) {
        return 0;
    }
    return tern_ternary_encode_planes(job, job->peak, &planes);
}

const struct tern_encoder tern_stochastic_ternary_encoder = {
    .bound = tern_ternary_bound_planes,
    .encode = encode_stochastic,
};
