// What autoencoder.c and training.c share.
#ifndef TERN_LGC_INTERNAL_H
#define TERN_LGC_INTERNAL_H

#include "lgc/autoencoder.h"
#include "lgc/chain.h"

static inline bool tern_autoencoder_has_innovation(const struct tern_autoencoder *autoencoder)
{
    return autoencoder->settings.pattern == TERN_AUTOENCODER_PARAMETER_SERVER;
}

// A value in the network's unit.
static inline float tern_autoencoder_scaled(float value, float scale)
{
    return scale > 0.0f ? value / scale : 0.0f;
}

bool tern_autoencoder_all_finite(const float *values, size_t count);

// Positions of the code of `length` values.
size_t tern_autoencoder_positions(size_t length);

void tern_autoencoder_place_encoder(const struct tern_autoencoder *autoencoder, size_t length,
                                    bool backward, struct tern_arena *arena,
                                    struct tern_chain *encoder);
void tern_autoencoder_place_decoder(const struct tern_autoencoder *autoencoder, size_t length,
                                    bool backward, struct tern_arena *arena,
                                    struct tern_chain *decoder);

// Bytes of memory of any alignment for `used` of an arena; 0: beyond size_t.
size_t tern_autoencoder_bytes(size_t used);

// The arena in a workspace for so many values that needs so many bytes (0: none has as many).
TERN_MUST_USE enum tern_result tern_autoencoder_open(size_t length, size_t needed, void *workspace,
                                                     size_t size, struct tern_arena *arena);

// The encoder's input: values in the network's unit, and zeros to a whole position of the code.
void tern_autoencoder_read_values(const float *values, size_t length, float scale,
                                  struct tern_chain *encoder);

// The decoder's output of the code in decoder->in, in the network's unit. weights: the decoder's.
void tern_autoencoder_run_decoder(const struct tern_autoencoder *autoencoder, const float *weights,
                                  const float *innovation, size_t length, float scale,
                                  struct tern_chain *decoder);

#endif
