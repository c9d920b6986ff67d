// Estimates for the planning of rounds: how many bits per value a codec takes, how to make it send fewer values, and whether
// it can encode downloads. The aggregator and tern-codec call these functions. Each codec's file in quantizers/ defines its
// struct tern_codec_plan. Pure; reentrant.
#ifndef TERN_CODEC_PLAN_H
#define TERN_CODEC_PLAN_H

#include "codec/codec.h"

// Returns an estimate of the bits per value. Ternary codecs: the entropy of their symbols, which the range coder reaches
// within some percent. Other codecs: measured on updates (docs/BENCHMARKS.md).
double tern_codec_bits(const struct tern_codec *codec);

// Changes `codec` so that it sends the fraction p of the values. sparse stays sparse. 3lc and density become density with the
// same coder, if `density` allows it. uniform gets a larger error that takes as many bits. Returns false if that is not
// allowed, saves nothing, or is impossible for this codec.
bool tern_codec_thin(struct tern_codec *codec, double p, bool density);

// Returns true if a codec can encode downloads: if each download encodes the difference between a
// client's copy of the model and the global model, the copy must converge to the global model.
bool tern_codec_downloads(const struct tern_codec *codec);

// --- Defined by each codec's file

struct tern_codec_plan {
    double fixed_bits; // bits per value; used if bits is NULL
    double (*bits)(const struct tern_codec *codec);
    bool (*thin)(struct tern_codec *codec, double p, bool density);
    bool (*downloads)(const struct tern_codec *codec);
};

// Returns the plan of a built-in codec.
const struct tern_codec_plan *tern_codec_plan(enum tern_codec_id id);

#endif
