// A reading has what the check of an update decoded from its container, so that it is not decoded again once the update is
// accepted: decoding a range-coded payload is most of the cost of an update. It has the indices of ternary segments (signs()
// of codec/container.h), and all values of segments whose payloads are slow to read (uniform). Other segments are not kept,
// because decoding them again takes no longer than copying. Used by the
// federation, and by the mean, which may hold a reading for longer. One thread makes a reading; others may use and free
// it, one at a time.
#ifndef TERN_READING_H
#define TERN_READING_H

#include "codec/container.h"
#include <stdatomic.h>

// The memory that readings of waiting updates take together.
struct tern_reading_room {
    atomic_size_t bytes;
};

// Most bytes that the readings of waiting updates take together, unless one reading alone takes more.
#define TERN_READINGS_MAX ((size_t)32 << 20)

struct tern_reading;

// Checks an untrusted container as tern_container_inspect() does. *reading: owned by the caller, or NULL if nothing was
// kept.
// Errors of tern_container_inspect(); *reading is NULL then
TERN_MUST_USE enum tern_result tern_reading_make(struct tern_reading_room *room,
                                                 const struct tern_model *model,
                                                 const uint8_t *container, size_t len,
                                                 struct tern_codec_info *info,
                                                 struct tern_reading **reading);
// Releases one reference to the reading; the last release frees it. NULL is allowed.
void tern_reading_free(struct tern_reading *reading);

// Adds a reference to the reading. Its bytes no longer count in its room; the caller counts them.
void tern_reading_share(struct tern_reading *reading);
uint64_t tern_reading_bytes(const struct tern_reading *reading);

// Whether the reading has the indices of all non-zero values of the update. False for NULL.
bool tern_reading_is_whole(const struct tern_reading *reading);

// Whether the reading has the whole segment. False for NULL.
bool tern_reading_keeps(const struct tern_reading *reading, uint32_t segment);
// Returns the magnitude of the values in a segment that is kept by its indices.
float tern_reading_scale(const struct tern_reading *reading, uint32_t segment);

// Passes the kept segments to a visitor's signs() and values(). Errors of values()
TERN_MUST_USE enum tern_result tern_reading_each(const struct tern_reading *reading,
                                                 const struct tern_container_visitor *visitor);

// A range of a segment's kept values, all of magnitude `scale`: 2 * index, + 1 if negative, ascending. Borrowed from the
// reading.
struct tern_reading_part {
    float scale;
    size_t count;
    const uint32_t *of;
};

// Returns the values with an index in first..end. *at: 0 at first, and from then on where the previous range ended, so that
// ascending ranges read each index once.
struct tern_reading_part tern_reading_part(const struct tern_reading *reading, uint32_t segment,
                                           uint32_t first, uint32_t end, size_t *at);

#endif
