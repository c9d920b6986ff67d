#include "catchup/abilities.h"

struct tern_abilities tern_abilities_of(const struct tern_db_client *row)
{
    return (struct tern_abilities){.codecs = row->codecs,
                                   .coders = row->coders,
                                   .downloads_max = row->downloads_max,
                                   .from_seed = row->from_seed,
                                   .step_ahead = row->step_ahead};
}

bool tern_abilities_equal(const struct tern_abilities *a, const struct tern_abilities *b)
{
    return a->codecs == b->codecs && a->coders == b->coders &&
           a->downloads_max == b->downloads_max && a->from_seed == b->from_seed &&
           a->step_ahead == b->step_ahead;
}

bool tern_abilities_know(const struct tern_abilities *client, enum tern_codec_id codec)
{
    return client->codecs == 0 || (client->codecs >> codec & 1) != 0;
}

static bool has_all_coders(const struct tern_abilities *client)
{
    return client->coders == 0 || (client->coders & TERN_CODERS_ALL) == TERN_CODERS_ALL;
}

static bool has_coder(const struct tern_abilities *client, uint32_t coder)
{
    return (client->coders >> coder & 1) != 0;
}

bool tern_abilities_encode(const struct tern_abilities *client, const struct tern_codec *codec)
{
    bool any = !tern_codec_is_ternary(codec) || codec->coder == TERN_CODER_AUTO ||
               has_all_coders(client) || has_coder(client, codec->coder);
    return any && tern_abilities_know(client, codec->id);
}

// To decode what any ternary codec made takes its coder alone; `auto` may have taken any. Who names
// no coders has those of its codecs.
bool tern_abilities_decode(const struct tern_abilities *client, const struct tern_codec *codec)
{
    if (!tern_codec_is_ternary(codec) || client->coders == 0) {
        return tern_abilities_know(client, codec->id);
    }
    return codec->coder == TERN_CODER_AUTO ? has_all_coders(client)
                                           : has_coder(client, codec->coder);
}
