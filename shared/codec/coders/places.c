#include "codec/coders/places.h"

#include <string.h>

void tern_places_clear(float *dst, size_t from, size_t end)
{
    if (from < end) {
        memset(dst + from, 0, (end - from) * sizeof *dst);
    }
}

size_t tern_places_set(const struct tern_places *places, uint32_t scale_bits, float *dst,
                       size_t from)
{
    if (places->count == 0) {
        return from;
    }
    size_t end = (size_t)(places->of[places->count - 1] / 2) + 1;
    tern_places_clear(dst, from, end);
    for (size_t i = 0; i < places->count; i++) {
        dst[places->of[i] / 2] = tern_place_value(places->of[i], scale_bits);
    }
    return end;
}

// Places far apart are no pattern that hardware would foresee.
void tern_places_add(const struct tern_places *places, uint32_t scale_bits, float *acc)
{
    for (size_t i = 0; i < places->count; i++) {
        __builtin_prefetch(&acc[places->of[i] / 2], 1);
    }
    for (size_t i = 0; i < places->count; i++) {
        acc[places->of[i] / 2] += tern_place_value(places->of[i], scale_bits);
    }
}
