#include "codec/coders/places.h"

#include <string.h>

static inline float value_of(tern_place place, uint32_t scale_bits)
{
    return tern_bits_float(scale_bits ^ (uint32_t)(place & 1) << 31);
}

static void clear(float *dst, size_t from, size_t end)
{
    if (from < end) {
        memset(dst + from, 0, (end - from) * sizeof *dst);
    }
}

// Sets the values from `from` to the last place, zero but for the places. Returns where it ended.
static size_t set(const struct tern_places *places, uint32_t scale_bits, float *dst, size_t from)
{
    if (places->count == 0) {
        return from;
    }
    size_t end = (size_t)(places->of[places->count - 1] / 2) + 1;
    clear(dst, from, end);
    for (size_t i = 0; i < places->count; i++) {
        dst[places->of[i] / 2] = value_of(places->of[i], scale_bits);
    }
    return end;
}

// Places far apart are no pattern that hardware would foresee.
static void add(const struct tern_places *places, uint32_t scale_bits, float *acc)
{
    for (size_t i = 0; i < places->count; i++) {
        __builtin_prefetch(&acc[places->of[i] / 2], 1);
    }
    for (size_t i = 0; i < places->count; i++) {
        acc[places->of[i] / 2] += value_of(places->of[i], scale_bits);
    }
}

void tern_places_decode(tern_places_find *find, void *reader, uint32_t scale_bits, float *dst,
                        size_t count)
{
    struct tern_places places;
    size_t done = 0;
    do {
        find(reader, &places);
        done = set(&places, scale_bits, dst, done);
    } while (places.count == TERN_PLACES_MAX);
    clear(dst, done, count);
}

void tern_places_accumulate(tern_places_find *find, void *reader, uint32_t scale_bits, float *acc)
{
    struct tern_places places;
    do {
        find(reader, &places);
        add(&places, scale_bits, acc);
    } while (places.count == TERN_PLACES_MAX);
}

size_t tern_places_count(tern_places_find *find, void *reader)
{
    struct tern_places places;
    size_t found = 0;
    do {
        find(reader, &places);
        found += places.count;
    } while (places.count == TERN_PLACES_MAX);
    return found;
}
