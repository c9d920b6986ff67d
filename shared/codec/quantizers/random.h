// Draws of the codecs that round at random (docs/FORMAT.md, section 7). The draw of a value depends
// on its index alone, so values may be encoded in any order. Internal to shared/codec.
#ifndef TERN_QUANTIZERS_RANDOM_H
#define TERN_QUANTIZERS_RANDOM_H

#include "codec/codec.h"
#include "util/prng.h"

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

#endif
