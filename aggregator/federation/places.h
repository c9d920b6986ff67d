// The download that holds the places a round's leader chose: set by the federation thread, read by
// all threads.
#ifndef TERN_PLACES_H
#define TERN_PLACES_H

#include "hosted/blob.h"
#include "util/sha256.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct tern_places {
    pthread_mutex_t lock; // of what follows, up to the next comment
    uint32_t round;
    struct tern_blob *blob; // NULL = none

    // Of the federation thread alone.
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t payload;
    bool awaited;     // the leader was, at the last look
    uint32_t refused; // round whose leader's update was refused
};

void tern_places_init(struct tern_places *places);
void tern_places_free(struct tern_places *places);

// Takes the blob over. NULL: that round shares nothing.
void tern_places_set(struct tern_places *places, uint32_t round, struct tern_blob *blob);

// One reference more to the blob of that round, or NULL. Any thread.
struct tern_blob *tern_places_of(struct tern_places *places, uint32_t round);

#endif
