// A client's codecs and memory, as its last check-in announced them. A small device has few codecs and little memory;
// the planner must not give it more. catchup.c, search.c and federation/ call it. Pure; reentrant.
#ifndef TERN_ABILITIES_H
#define TERN_ABILITIES_H

#include "codec/codec.h"
#include "store/store.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_abilities {
    uint32_t codecs;        // bit i: codec id i; 0 = not announced: all
    uint32_t coders;        // bit i: coder i of ternary symbols; 0 = all coders of `codecs`
    uint32_t downloads_max; // most downloads in one task; 0 = the protocol's limit
    bool from_seed;         // can apply a delta to the seed's replica, whatever replica it has
    uint32_t others;        // CheckinRequest.abilities: bits TERN_WIRE_STEPS_AHEAD and following
};

// Returns the abilities in the client's row.
struct tern_abilities tern_abilities_of(const struct tern_db_client *row);

bool tern_abilities_equal(const struct tern_abilities *a, const struct tern_abilities *b);
bool tern_abilities_have(const struct tern_abilities *client, enum tern_codec_id codec);

// Whether the client can encode, or decode, with this codec. An encoder with the coder `auto` uses the coders that it has.
bool tern_abilities_encode(const struct tern_abilities *client, const struct tern_codec *codec);
bool tern_abilities_decode(const struct tern_abilities *client, const struct tern_codec *codec);

#endif
