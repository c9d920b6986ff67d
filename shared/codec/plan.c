#include "codec/plan.h"

#define DECLARE(codec, symbol, id) extern const struct tern_codec_plan tern_##codec##_plan;
TERN_CODECS(DECLARE)

const struct tern_codec_plan *tern_codec_plan(enum tern_codec_id id)
{
#define PLAN_OF(codec, symbol, id) [id] = &tern_##codec##_plan,
    static const struct tern_codec_plan *const plans[] = {TERN_CODECS(PLAN_OF)};
    return plans[id];
}

double tern_codec_bits(const struct tern_codec *codec)
{
    const struct tern_codec_plan *plan = tern_codec_plan(codec->id);
    return plan->bits != NULL ? plan->bits(codec) : plan->fixed_bits;
}

bool tern_codec_thin(struct tern_codec *codec, double p, bool density)
{
    return tern_codec_plan(codec->id)->thin(codec, p, density);
}

bool tern_codec_downloads(const struct tern_codec *codec)
{
    return tern_codec_plan(codec->id)->downloads(codec);
}
