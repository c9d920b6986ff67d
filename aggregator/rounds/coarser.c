#include "rounds/coarser.h"

#include <stddef.h>

const double tern_coarser_rungs[] = {0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0};

// Entropy in bits of a value that is 0 but for a share p, where its sign is one bit more:
// h(p) + p, tabulated so that no libm function decides what a client does.
struct point {
    double p;
    double bits;
};
static const struct point ternary[] = {{0.0, 0.0},      {0.001, 0.0124}, {0.002, 0.0228},
                                       {0.005, 0.0504}, {0.01, 0.0908},  {0.02, 0.1614},
                                       {0.05, 0.3364},  {0.1, 0.569},    {0.2, 0.9219},
                                       {0.5, 1.5},      {1.0, 1.585}};

#define MIN_DENSITY 1e-6
// What 3lc is not made coarser than: beyond, updates overshoot or fall silent (docs/BENCHMARKS.md).
#define COARSEST_3LC 1.5
#define USUAL_3LC 0.63 // bits at s = 1
#define SPARSE_BITS 40 // float32 and its place

static double ternary_bits(double p)
{
    size_t i = 1;
    while (i + 1 < sizeof ternary / sizeof ternary[0] && ternary[i].p < p) {
        i++;
    }
    const struct point *a = &ternary[i - 1];
    const struct point *b = &ternary[i];
    return a->bits + (b->bits - a->bits) * (p - a->p) / (b->p - a->p);
}

static float density_of(double p)
{
    return (float)(p > MIN_DENSITY ? p : MIN_DENSITY);
}

bool tern_coarser_share(struct tern_codec *codec, double share)
{
    switch ((int)codec->id) {
    case TERN_CODEC_DENSITY:
    case TERN_CODEC_SPARSE:
        codec->density = density_of((double)codec->density * share);
        return true;
    case TERN_CODEC_3LC: {
        double s = 2.0 - (2.0 - (double)codec->sparsity) * share;
        s = s < COARSEST_3LC ? s : COARSEST_3LC;
        codec->sparsity = s > (double)codec->sparsity ? (float)s : codec->sparsity;
        return true;
    }
    default:
        return false;
    }
}

bool tern_coarser_density(struct tern_codec *codec, double p, bool density)
{
    bool turns = codec->id == TERN_CODEC_3LC || codec->id == TERN_CODEC_DENSITY;
    if (codec->id == TERN_CODEC_SPARSE) {
        codec->density = density_of(p);
        return true;
    }
    if (!turns || !density) {
        return false;
    }
    *codec = (struct tern_codec){
        .id = TERN_CODEC_DENSITY, .density = density_of(p), .coder = codec->coder};
    return true;
}

double tern_coarser_bits(const struct tern_codec *codec)
{
    switch ((int)codec->id) {
    case TERN_CODEC_DENSITY:
        return ternary_bits((double)codec->density);
    case TERN_CODEC_3LC:
        return USUAL_3LC * (2.0 - (double)codec->sparsity);
    case TERN_CODEC_SPARSE:
    case TERN_CODEC_DGC:
    case TERN_CODEC_SCALECOM:
        return SPARSE_BITS * (double)codec->density;
    case TERN_CODEC_STOCHASTIC_TERNARY:
    case TERN_CODEC_ONEBIT:
        return 1.0;
    case TERN_CODEC_QSGD:
    case TERN_CODEC_INCEPTIONN:
        return 4.0;
    case TERN_CODEC_INT8:
        return 8.0;
    case TERN_CODEC_FLOAT16:
    case TERN_CODEC_BFLOAT16:
        return 16.0;
    case TERN_CODEC_FLOAT32:
    default:
        return 32.0;
    }
}
