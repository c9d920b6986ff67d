#include "codec/quantizers/row.h"

// --- Bits

double tern_plan_sparse_bits(const struct tern_codec *codec)
{
    return 40.0 * (double)codec->density;
}

// Returns the entropy of a ternary value in bits: h(p) + p, where p is the fraction that is not 0 and each of these takes a sign
// bit. A table, because libm's last bit differs between platforms, and clients must act alike.
double tern_plan_ternary_bits(double density)
{
    static const struct point {
        double p;
        double bits;
    } points[] = {{0.0, 0.0},     {0.001, 0.0124}, {0.002, 0.0228}, {0.005, 0.0504},
                  {0.01, 0.0908}, {0.02, 0.1614},  {0.05, 0.3364},  {0.1, 0.569},
                  {0.2, 0.9219},  {0.5, 1.5},      {1.0, 1.585}};
    size_t i = 1;
    while (i + 1 < sizeof points / sizeof points[0] && points[i].p < density) {
        i++;
    }
    const struct point *a = &points[i - 1];
    const struct point *b = &points[i];
    return a->bits + (b->bits - a->bits) * (density - a->p) / (b->p - a->p);
}

// --- Fewer values

static float density_of(double p)
{
    const double least = 1e-6;
    return (float)(p > least ? p : least);
}

bool tern_plan_density(struct tern_codec *codec, double p, bool density)
{
    (void)density;
    codec->density = density_of(p);
    return true;
}

bool tern_plan_become_density(struct tern_codec *codec, double p, bool density)
{
    if (density) {
        *codec = (struct tern_codec){
            .id = TERN_CODEC_DENSITY, .density = density_of(p), .coder = codec->coder};
    }
    return density;
}

bool tern_plan_no_density(struct tern_codec *codec, double p, bool density)
{
    (void)codec;
    (void)p;
    (void)density;
    return false;
}

// --- Downloads

bool tern_plan_always(const struct tern_codec *codec)
{
    (void)codec;
    return true;
}

bool tern_plan_never(const struct tern_codec *codec)
{
    (void)codec;
    return false;
}
