// What somebody may have meant by a name that does not exist. Pure; reentrant.
#ifndef TERN_NEAR_NAME_H
#define TERN_NEAR_NAME_H

#include <stddef.h>

// Levenshtein distance; SIZE_MAX where b has 64 bytes or more.
size_t tern_edit_distance(const char *a, const char *b);

// What a name's distance from the one that was written must be below.
size_t tern_near_limit(const char *written);

// A search: start with .limit = tern_near_limit(written), offer every name there is; best is NULL where none
// is near.
struct tern_near_name {
    const char *written;
    const char *best;
    size_t limit;
};
void tern_near_offer(struct tern_near_name *search, const char *name);

#endif
