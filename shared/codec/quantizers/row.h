// What the files of codecs are written with: each says what the codec is called, how it encodes and
// which modes its payloads have (tern_NAME_codec), and what a plan reckons with (tern_NAME_plan).
// Internal to shared/codec.
#ifndef TERN_QUANTIZERS_ROW_H
#define TERN_QUANTIZERS_ROW_H

#include "codec/modes.h"
#include "codec/plan.h"
#include "util/prng.h"

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

// --- Random numbers of the codecs that round at random

// Draws of a segment: four of each of 2^32 blocks.
#define TERN_DRAWS_PER_SEGMENT ((uint64_t)1 << 34)

// The stream, at the draw of value `index` of the context's segment. Take draws one by one with
// tern_prng_u32(), or many with tern_prng_fill(): each is that of the next value.
static inline struct tern_prng tern_codec_stream(const struct tern_encode_context *context,
                                                 size_t index)
{
    struct tern_prng rng;
    tern_prng_init(&rng, context->seed, TERN_PRNG_CODEC, context->round, context->client);
    tern_prng_seek(&rng, context->segment * TERN_DRAWS_PER_SEGMENT + index);
    return rng;
}

// --- What the plans of several say (row.c)

double tern_plan_sparse_bits(const struct tern_codec *codec); // a float32 and its index each
double tern_plan_ternary_bits(double density);
bool tern_plan_density(struct tern_codec *codec, double p, bool density); // of its own values
bool tern_plan_become_density(struct tern_codec *codec, double p, bool density);
bool tern_plan_no_density(struct tern_codec *codec, double p, bool density);
bool tern_plan_always(const struct tern_codec *codec);
bool tern_plan_never(const struct tern_codec *codec);

#endif
