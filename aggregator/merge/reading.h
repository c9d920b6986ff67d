// What the check of an update found in its container, kept until the update is accepted: reading a
// range-coded payload is most of what an update costs, and is done once, by the thread that received
// it. Kept are the indices that signs() of a visitor is given
// (codec/container.h); other segments are read again where they are added up, which takes no longer than
// reading these. Who calls: the federation, and the mean, which may hold one
// for longer. A reading is made by one thread and may be used and freed by others, one at a time.
#ifndef TERN_READING_H
#define TERN_READING_H

#include "codec/container.h"
#include <stdatomic.h>

// Readings that wait together, and how much memory they take.
struct tern_reading_room {
    atomic_size_t bytes;
};

#define TERN_READINGS_MAX ((size_t)64 << 20) // bytes; beyond, nothing more is kept

struct tern_reading;

// Checks an untrusted container as tern_container_inspect() does. *reading: what was kept, or NULL
// when nothing was; the caller's.
// Errors of tern_container_inspect(); *reading is NULL then
TERN_MUST_USE enum tern_result tern_reading_make(struct tern_reading_room *room,
                                                 const struct tern_model *model,
                                                 const uint8_t *container, size_t len,
                                                 struct tern_codec_info *info,
                                                 struct tern_reading **reading);
// Lets go of it; it is freed with its last holder. NULL is allowed.
void tern_reading_free(struct tern_reading *reading);

// One more holds it, for longer: it counts in its room no more, but where it is held.
void tern_reading_share(struct tern_reading *reading);
uint64_t tern_reading_bytes(const struct tern_reading *reading);

// Whether all values of the update that are not zero were kept. NULL keeps none.
bool tern_reading_is_whole(const struct tern_reading *reading);

// Whether all of the segment was kept. NULL keeps none.
bool tern_reading_keeps(const struct tern_reading *reading, uint32_t segment);
// The magnitude of the values of a segment that was kept.
float tern_reading_scale(const struct tern_reading *reading, uint32_t segment);

// Gives the segments that were kept to a visitor's signs().
void tern_reading_each(const struct tern_reading *reading,
                       void (*signs)(void *ctx, uint32_t segment, float scale,
                                     const struct tern_indices *indices),
                       void *ctx);

// Some of what was kept of one segment: ascending, 2 * index, + 1 if negative, of values of magnitude
// `scale`. Borrowed from the reading.
struct tern_reading_part {
    float scale;
    size_t count;
    const uint32_t *of;
};

// Those with an index in first..end. *at: where it was last found what comes before, 0 at first; who asks
// for one part after the other, in the order of the model, never looks at an index twice.
struct tern_reading_part tern_reading_part(const struct tern_reading *reading, uint32_t segment,
                                           uint32_t first, uint32_t end, size_t *at);

#endif
