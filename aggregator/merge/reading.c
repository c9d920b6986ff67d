#include "merge/reading.h"

#include "hosted/spool.h"
#include <stdlib.h>
#include <string.h>

// Limits the kept indices by the bytes of a container. A sign alone takes a bit, so that only containers that are built to
// expand have more.
#define INDICES_PER_BYTE 8

struct kept {
    float scale;
    size_t first;   // index into reading->of
    size_t end;     // equal to first: the segment is not kept
    bool lost;      // the segment had no room
    float *values;  // all values of a segment that is slow to read; NULL: not kept
    uint32_t count; // number of the values
};

struct tern_reading {
    struct tern_reading_room *room; // NULL: the bytes count in no room any more
    atomic_uint holders;
    bool whole;
    size_t bytes;
    uint32_t *of; // 2 * index, + 1 if negative
    size_t count;
    size_t most;
    float *decoding; // memory for the segment that is being decoded
    bool keeps_values;
    uint32_t segments;
    struct kept kept[];
};

_Static_assert(TERN_MODEL_MAX_VALUES <= UINT32_MAX / 2, "an index and its sign fit 32 bits");

static void keep(void *ctx, uint32_t segment, float scale, const struct tern_indices *indices)
{
    struct tern_reading *reading = ctx;
    struct kept *kept = &reading->kept[segment];
    if (reading->of == NULL || kept->lost) {
        return;
    }
    if (kept->end == kept->first) {
        *kept = (struct kept){.scale = scale, .first = reading->count, .end = reading->count};
    }
    if (indices->count > reading->most - reading->count) {
        reading->count = kept->first;
        *kept = (struct kept){.lost = true};
        return;
    }
    for (size_t i = 0; i < indices->count; i++) {
        reading->of[reading->count + i] = (uint32_t)indices->of[i];
    }
    reading->count += indices->count;
    kept->end = reading->count;
}

static bool has_room(const struct tern_reading_room *room, size_t bytes)
{
    const size_t used = atomic_load(&room->bytes);
    return used == 0 || (bytes <= TERN_READINGS_MAX && used <= TERN_READINGS_MAX - bytes);
}

static float *memory_for_values(void *ctx, uint32_t count)
{
    struct tern_reading *reading = ctx;
    const size_t bytes = count * sizeof(float);
    reading->decoding = has_room(reading->room, bytes) ? malloc(bytes) : NULL;
    tern_large_pages(reading->decoding, bytes);
    return reading->decoding;
}

static enum tern_result keep_values(void *ctx, uint32_t segment, uint32_t first,
                                    const float *values, uint32_t count)
{
    struct tern_reading *reading = ctx;
    (void)first;
    (void)values;
    reading->kept[segment].values = reading->decoding;
    reading->kept[segment].count = count;
    reading->decoding = NULL;
    reading->keeps_values = true;
    reading->bytes += count * sizeof(float);
    atomic_fetch_add(&reading->room->bytes, count * sizeof(float));
    return TERN_OK;
}

// Returns NULL if memory is short, or if readings already take TERN_READINGS_MAX.
static struct tern_reading *begin(struct tern_reading_room *room, const struct tern_model *model,
                                  size_t len)
{
    const size_t size = sizeof(struct tern_reading) + model->segment_count * sizeof(struct kept);
    if (atomic_load(&room->bytes) >= TERN_READINGS_MAX) {
        return NULL;
    }
    struct tern_reading *reading = calloc(1, size);
    if (reading == NULL) {
        return NULL;
    }
    size_t most = len < SIZE_MAX / sizeof(uint32_t) / INDICES_PER_BYTE ? len * INDICES_PER_BYTE : 0;
    reading->room = room;
    atomic_init(&reading->holders, 1);
    reading->segments = model->segment_count;
    reading->most = most < model->count ? most : model->count;
    reading->of = malloc(reading->most * sizeof reading->of[0]);
    tern_large_pages(reading->of, reading->most * sizeof reading->of[0]);
    reading->bytes = size + reading->most * sizeof reading->of[0];
    atomic_fetch_add(&room->bytes, reading->bytes);
    return reading;
}

// Frees the memory that the indices did not need.
static void shrink(struct tern_reading *reading)
{
    size_t freed = (reading->most - reading->count) * sizeof reading->of[0];
    uint32_t *fitting = NULL;
    if (reading->count == 0) {
        free(reading->of);
    } else {
        fitting = realloc(reading->of, reading->count * sizeof reading->of[0]);
        if (fitting == NULL) {
            return;
        }
    }
    reading->of = fitting;
    reading->most = reading->count;
    reading->bytes -= freed;
    atomic_fetch_sub(&reading->room->bytes, freed);
}

enum tern_result tern_reading_make(struct tern_reading_room *room, const struct tern_model *model,
                                   const uint8_t *container, size_t len,
                                   struct tern_codec_info *info, struct tern_reading **out)
{
    struct tern_reading *reading = begin(room, model, len);
    const struct tern_container_visitor visitor = {.ctx = reading,
                                                   .signs = reading != NULL ? keep : NULL,
                                                   .values = reading != NULL ? keep_values : NULL,
                                                   .scratch = memory_for_values,
                                                   .slow_only = true};
    enum tern_result result = tern_container_each(model, container, len, &visitor, info);
    if (result != TERN_OK || reading == NULL || (reading->count == 0 && !reading->keeps_values)) {
        tern_reading_free(reading);
        reading = NULL;
    } else {
        shrink(reading);
        reading->whole = !reading->keeps_values && reading->count == info->nonzero;
    }
    *out = reading;
    return result;
}

static void leave_room(struct tern_reading *reading)
{
    if (reading->room != NULL) {
        atomic_fetch_sub(&reading->room->bytes, reading->bytes);
        reading->room = NULL;
    }
}

void tern_reading_free(struct tern_reading *reading)
{
    if (reading == NULL || atomic_fetch_sub(&reading->holders, 1) > 1) {
        return;
    }
    leave_room(reading);
    for (uint32_t segment = 0; segment < reading->segments; segment++) {
        free(reading->kept[segment].values);
    }
    free(reading->decoding);
    free(reading->of);
    free(reading);
}

void tern_reading_share(struct tern_reading *reading)
{
    leave_room(reading);
    atomic_fetch_add(&reading->holders, 1);
}

uint64_t tern_reading_bytes(const struct tern_reading *reading)
{
    return reading->bytes;
}

bool tern_reading_is_whole(const struct tern_reading *reading)
{
    return reading != NULL && reading->whole;
}

bool tern_reading_keeps(const struct tern_reading *reading, uint32_t segment)
{
    return reading != NULL && (reading->kept[segment].end > reading->kept[segment].first ||
                               reading->kept[segment].values != NULL);
}

float tern_reading_scale(const struct tern_reading *reading, uint32_t segment)
{
    return reading->kept[segment].scale;
}

enum tern_result tern_reading_each(const struct tern_reading *reading,
                                   const struct tern_container_visitor *visitor)
{
    for (uint32_t segment = 0; reading != NULL && segment < reading->segments; segment++) {
        const struct kept *kept = &reading->kept[segment];
        for (size_t at = kept->first; at < kept->end; at += TERN_INDICES_MAX) {
            struct tern_indices indices;
            size_t left = kept->end - at;
            indices.count = left < TERN_INDICES_MAX ? left : TERN_INDICES_MAX;
            for (size_t i = 0; i < indices.count; i++) {
                indices.of[i] = reading->of[at + i];
            }
            visitor->signs(visitor->ctx, segment, kept->scale, &indices);
        }
        if (kept->values != NULL) {
            TERN_TRY(visitor->values(visitor->ctx, segment, 0, kept->values, kept->count));
        }
    }
    return TERN_OK;
}

struct tern_reading_part tern_reading_part(const struct tern_reading *reading, uint32_t segment,
                                           uint32_t first, uint32_t end, size_t *at)
{
    const struct kept *kept = &reading->kept[segment];
    size_t from = *at > kept->first ? *at : kept->first;
    while (from < kept->end && reading->of[from] / 2 < first) {
        from++;
    }
    size_t past = from;
    while (past < kept->end && reading->of[past] / 2 < end) {
        past++;
    }
    *at = past;
    return (struct tern_reading_part){
        .scale = kept->scale, .count = past - from, .of = reading->of + from};
}
