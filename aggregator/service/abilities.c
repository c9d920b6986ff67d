#include "service/abilities.h"

bool abilities_equal(const struct abilities *a, const struct abilities *b)
{
    return a->codecs == b->codecs && a->coders == b->coders &&
           a->downloads_max == b->downloads_max && a->from_seed == b->from_seed &&
           a->step_ahead == b->step_ahead;
}

bool abilities_know(const struct abilities *client, enum tern_codec_id codec)
{
    return client->codecs == 0 || (client->codecs >> codec & 1) != 0;
}

static bool has_all_coders(const struct abilities *client)
{
    return client->coders == 0 || (client->coders & TERN_CODERS_ALL) == TERN_CODERS_ALL;
}

static bool has_coder(const struct abilities *client, uint32_t coder)
{
    return (client->coders >> coder & 1) != 0;
}

bool abilities_encode(const struct abilities *client, const struct tern_codec *codec)
{
    bool any = !tern_codec_is_ternary(codec) || codec->coder == TERN_CODER_AUTO ||
               has_all_coders(client) || has_coder(client, codec->coder);
    return any && abilities_know(client, codec->id);
}

// To decode what any ternary codec made takes its coder alone; `auto` may have taken any. Who names
// no coders has those of its codecs.
bool abilities_decode(const struct abilities *client, const struct tern_codec *codec)
{
    if (!tern_codec_is_ternary(codec) || client->coders == 0) {
        return abilities_know(client, codec->id);
    }
    return codec->coder == TERN_CODER_AUTO ? has_all_coders(client)
                                           : has_coder(client, codec->coder);
}
