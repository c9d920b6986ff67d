// What a plan reckons with: how many bits a codec takes, whether and how it is made to take fewer,
// and whether it may encode downloads. Who calls: the aggregator, and tern-codec for people. Each
// codec's file in quantizers/ says it, none may leave anything out (tests/shared/test_plan.c), and
// a program that plans nothing holds none of it. Pure; reentrant.
#ifndef TERN_CODEC_PLAN_H
#define TERN_CODEC_PLAN_H

#include "codec/codec.h"

// Bits that a value takes on average, near enough to compare codecs with: the entropy of ternary
// symbols at a density, which the range coder reaches within some percent, the density that 3lc comes
// to on gradients (docs/BENCHMARKS.md), and what uniform took of updates (quantizers/uniform.c).
double tern_codec_bits(const struct tern_codec *codec);

// Makes `codec` send the share p of the values: sparse keeps its values, 3lc and density become
// density with the same coder, where `density` says that it may be. uniform leaves a larger error,
// by which it takes as many bits. False when it may not be, would not be thinner, and for others.
bool tern_codec_thin(struct tern_codec *codec, double p, bool density);

// Whether it may encode downloads, whose error is always fed back (the replica's error buffer is
// what the global model is ahead of it): only where that converges.
bool tern_codec_downloads(const struct tern_codec *codec);

// --- What a codec's file says

struct tern_codec_plan {
    double fixed_bits; // 0: bits() says
    double (*bits)(const struct tern_codec *codec);
    bool (*thin)(struct tern_codec *codec, double p, bool density);
    bool (*downloads)(const struct tern_codec *codec);
};

// What the file of a codec that is built in says.
const struct tern_codec_plan *tern_codec_plan(enum tern_codec_id id);

#endif
