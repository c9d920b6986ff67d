// What the files of codecs are written with: each says what the codec is called, how it encodes and
// which modes its payloads have (tern_NAME_codec), and what a plan reckons with (tern_NAME_plan).
// Internal to shared/codec.
#ifndef TERN_QUANTIZERS_ROW_H
#define TERN_QUANTIZERS_ROW_H

#include "codec/modes.h"
#include "codec/plan.h"

#define TERN_FIELD(name) offsetof(struct tern_codec, name)
#define TERN_LAST_PARAMETER                                                                        \
    {                                                                                              \
        .key = NULL                                                                                \
    }

// What only people read.
#if TERN_FOR_PEOPLE
#define TERN_HELP(text) text
#else
#define TERN_HELP(text) ""
#endif

// --- What the plans of several say (row.c)

double tern_plan_sparse_bits(const struct tern_codec *codec); // a float32 and its index each
double tern_plan_ternary_bits(double density);
bool tern_plan_density(struct tern_codec *codec, double p, bool density); // of its own values
bool tern_plan_become_density(struct tern_codec *codec, double p, bool density);
bool tern_plan_no_density(struct tern_codec *codec, double p, bool density);
bool tern_plan_always(const struct tern_codec *codec);
bool tern_plan_never(const struct tern_codec *codec);

#endif
