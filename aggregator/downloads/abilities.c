#include "downloads/abilities.h"

struct tern_abilities tern_abilities_of(const struct tern_db_client *row)
{
    return (struct tern_abilities){.codecs = row->codecs,
                                   .coders = row->coders,
                                   .downloads_max = row->downloads_max,
                                   .from_seed = row->from_seed,
                                   .others = row->abilities};
}

bool tern_abilities_equal(const struct tern_abilities *a, const struct tern_abilities *b)
{
    return a->codecs == b->codecs && a->coders == b->coders &&
           a->downloads_max == b->downloads_max && a->from_seed == b->from_seed &&
           a->others == b->others;
}

bool tern_abilities_have(const struct tern_abilities *client, enum tern_codec_id codec)
{
    return client->codecs == 0 || (client->codecs >> codec & 1) != 0;
}

// Whether a client has every coder that a ternary codec may use. A client that announces no coders has all coders.
static bool has_coders(const struct tern_abilities *client, const struct tern_codec *codec)
{
    const uint32_t takes = codec->coder == TERN_CODER_AUTO       ? TERN_CODERS_ALL
                           : codec->coder == TERN_CODER_BALANCED ? TERN_CODERS_BALANCED
                                                                 : 1u << codec->coder;
    return client->coders == 0 || (client->coders & takes) == takes;
}

// An encoder with the coder `auto` takes the smallest result of the coders that it has, so that any coder suffices.
bool tern_abilities_encode(const struct tern_abilities *client, const struct tern_codec *codec)
{
    bool any = !tern_codec_is_ternary(codec) || codec->coder == TERN_CODER_AUTO ||
               has_coders(client, codec);
    return any && tern_abilities_have(client, codec->id);
}

// Every client that has a ternary codec's coder can decode that codec, whatever codecs it announced.
bool tern_abilities_decode(const struct tern_abilities *client, const struct tern_codec *codec)
{
    if (!tern_codec_is_ternary(codec) || client->coders == 0) {
        return tern_abilities_have(client, codec->id);
    }
    return has_coders(client, codec);
}
