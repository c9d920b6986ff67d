// The scale at the start of every ternary body, which the coders check and describe. A file of its own, since the table of
// coders (ternary.c) refers to the coders.
#include "codec/coders/ternary.h"

#include "util/bytes.h"

enum tern_result tern_ternary_check_scale(const uint8_t *body, size_t len)
{
    if (len < TERN_TERNARY_SCALE_BYTES) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t bits = tern_get_le32(body);
    // A negative scale fails, too: as unsigned numbers its bits are above infinity.
    if (bits >= TERN_INFINITY_BITS) {
        return TERN_ERR_NON_FINITE;
    }
    return bits > 0 ? TERN_OK : TERN_ERR_CORRUPT; // a scale of 0 would be mode zero
}

void tern_ternary_describe(const uint8_t *body, size_t nonzero, size_t runs,
                           struct tern_codec_info *info)
{
    info->scale = tern_get_f32(body);
    info->maximum = nonzero > 0 ? info->scale : 0;
    if (TERN_FOR_PEOPLE) {
        info->nonzero = nonzero;
        info->runs = runs;
        info->sum_square = (double)nonzero * ((double)info->scale * (double)info->scale);
    }
}
