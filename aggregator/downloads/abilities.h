// What a client can encode, decode and hold, as its last check-in announced it. A small device has
// few codecs and little memory, and must not be given more. Pure; reentrant.
#ifndef TERN_ABILITIES_H
#define TERN_ABILITIES_H

#include "codec/codec.h"
#include "store/store.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_abilities {
    uint32_t codecs;        // bit i: codec id i; 0 = has not said, which stands for all
    uint32_t coders;        // bit i: coder i of ternary symbols; 0 = all, of the codecs above
    uint32_t downloads_max; // in one task; 0 = the protocol's limit
    bool from_seed;         // applies a delta from the seed's replica whatever it holds
    uint32_t others;        // TERN_WIRE_STEPS_AHEAD and others
};

// As the client's row has them.
struct tern_abilities tern_abilities_of(const struct tern_db_client *row);

bool tern_abilities_equal(const struct tern_abilities *a, const struct tern_abilities *b);
bool tern_abilities_know(const struct tern_abilities *client, enum tern_codec_id codec);

// Whether the client can make, or read, what this codec makes. With `auto` it makes what it can.
bool tern_abilities_encode(const struct tern_abilities *client, const struct tern_codec *codec);
bool tern_abilities_decode(const struct tern_abilities *client, const struct tern_codec *codec);

#endif
