#include "merge/vectors.h"

#include "hosted/log.h"
#include "hosted/memory.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static size_t size_of(const struct tern_vectors *vectors)
{
    return (size_t)vectors->count * sizeof(float);
}

// Which of the files values are in; of NULL: a free place for one. TERN_VECTORS_MAX: none.
static size_t place_of(const struct tern_vectors *vectors, const float *values)
{
    size_t place = 0;
    while (place < TERN_VECTORS_MAX && vectors->files[place] != values) {
        place++;
    }
    return place;
}

static bool is_in_file(const struct tern_vectors *vectors, const float *values)
{
    return values != NULL && place_of(vectors, values) < TERN_VECTORS_MAX;
}

static float *new_in_file(struct tern_vectors *vectors)
{
    const size_t place = place_of(vectors, NULL);
    float *values =
        place < TERN_VECTORS_MAX ? tern_file_memory_new(vectors->folder, size_of(vectors)) : NULL;
    if (values != NULL) {
        vectors->files[place] = values;
        return values;
    }
    tern_log(TERN_LOG_WARN, "vector-without-file", "bytes=%zu error=%s", size_of(vectors),
             TERN_LOG_TEXT(strerror(errno)));
    return NULL;
}

float *tern_vector_new(struct tern_vectors *vectors)
{
    const uint64_t size = size_of(vectors);
    const bool fits = size <= vectors->memory && vectors->used <= vectors->memory - size;
    float *values = NULL;
    if (vectors->folder != NULL && !fits) {
        values = new_in_file(vectors);
    }
    if (values == NULL) {
        values = calloc(vectors->count, sizeof *values);
        tern_large_pages(values, (size_t)size);
        vectors->used += values != NULL ? size : 0;
    }
    return values;
}

void tern_vector_free(struct tern_vectors *vectors, float *values)
{
    if (is_in_file(vectors, values)) {
        vectors->files[place_of(vectors, values)] = NULL;
        tern_file_memory_free(values, size_of(vectors));
        return;
    }
    vectors->used -= values != NULL ? size_of(vectors) : 0;
    free(values);
}

void tern_vector_rest(const struct tern_vectors *vectors, float *values)
{
    if (is_in_file(vectors, values)) {
        tern_file_memory_rest(values, size_of(vectors));
    }
}
