// Vectors of the model's size. While there is memory for them they are in it; each of the others is in a
// file without a name of its own, mapped, whose pages the kernel writes out and takes back when it needs
// memory. They are values like any other to who reads and writes them. Who calls: merge.c and
// merge_states.c. Thread rule: that of the merge.
#ifndef TERN_MERGE_VECTORS_H
#define TERN_MERGE_VECTORS_H

#include <stdint.h>

#define TERN_VECTORS_MAX 8 // that are in files at once

struct tern_vectors {
    uint32_t count;                 // values of each
    const char *folder;             // of the files; NULL: all are in memory
    uint64_t memory;                // bytes for those in memory
    uint64_t used;                  // of these
    float *files[TERN_VECTORS_MAX]; // where the others are mapped; NULL: a free place
};

// Zeros. In memory as well where a file cannot be made, as on a full disk, which the log says. NULL:
// there is no memory.
float *tern_vector_new(struct tern_vectors *vectors);
void tern_vector_free(struct tern_vectors *vectors, float *values); // NULL is allowed
// The values are not used for a while: what is in a file may leave memory.
void tern_vector_rest(const struct tern_vectors *vectors, float *values);

#endif
