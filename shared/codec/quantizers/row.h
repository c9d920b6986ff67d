// For the files of codecs: each defines the codec (tern_NAME_codec) and its estimates for plans (tern_NAME_plan). Internal to
// shared/codec.
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

// Texts for people; a small build leaves them out.
#if TERN_FOR_PEOPLE
#define TERN_HELP(text) text
#else
#define TERN_HELP(text) ""
#endif

// --- Random numbers of the codecs that round at random

// Random numbers of a segment: 2^32 blocks of four (docs/FORMAT.md, section 7).
#define TERN_DRAWS_PER_SEGMENT ((uint64_t)1 << 34)

// Returns the random stream at value `index` of the context's segment. Each further number of the stream belongs to the next
// value, so values may be encoded in any order.
static inline struct tern_prng tern_codec_stream(const struct tern_encode_context *context,
                                                 size_t index)
{
    struct tern_prng rng;
    tern_prng_init(&rng, context->seed, TERN_PRNG_CODEC, context->round, context->client);
    tern_prng_seek(&rng, context->segment * TERN_DRAWS_PER_SEGMENT + index);
    return rng;
}

// --- Members of struct tern_codec_plan that several codecs use (row.c)

double
tern_plan_sparse_bits(const struct tern_codec *codec); // a float32 and an index for each sent value
double tern_plan_ternary_bits(double density);
bool tern_plan_density(struct tern_codec *codec, double p,
                       bool density); // changes the codec's density
bool tern_plan_become_density(struct tern_codec *codec, double p, bool density);
bool tern_plan_no_density(struct tern_codec *codec, double p, bool density);
bool tern_plan_always(const struct tern_codec *codec);
bool tern_plan_never(const struct tern_codec *codec);

#endif
