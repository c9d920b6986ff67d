#include "util/near_name.h"

#include <stdint.h>
#include <string.h>

#define NAME_MAX_BYTES 64

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t tern_edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES];
    size_t width = strlen(b);
    if (width >= NAME_MAX_BYTES) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = smaller(replaced, smaller(row[j], row[j + 1]) + 1);
        }
    }
    return row[width];
}

size_t tern_near_limit(const char *written)
{
    const size_t len = strlen(written);
    return (len < 4 ? 1 : len < 12 ? 2 : len / 4) + 1;
}

void tern_near_offer(struct tern_near_name *search, const char *name)
{
    const size_t distance = tern_edit_distance(search->written, name);
    if (distance < search->limit) {
        search->limit = distance;
        search->best = name;
    }
}
