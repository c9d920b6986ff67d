// What the check of an update found in its container, kept until the update is accepted: reading a
// range-coded payload is most of what an update costs, and is done once, by the thread that received
// it. Kept are the indices of ternary segments; others are read again where they are added up,
// which takes no longer than reading these. Who calls: the federation. A reading is made by one
// thread and may be used and freed by another.
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
void tern_reading_free(struct tern_reading *reading); // NULL is allowed

// Whether all of the segment was kept. NULL keeps none.
bool tern_reading_keeps(const struct tern_reading *reading, uint32_t segment);

// Gives the segments that were kept to a visitor's signs().
void tern_reading_each(const struct tern_reading *reading,
                       void (*signs)(void *ctx, uint32_t segment, float scale,
                                     const struct tern_indices *indices),
                       void *ctx);

#endif
