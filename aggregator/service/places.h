// The download that holds the places a round's leader chose: set by the service thread, read by all
// threads.
#ifndef TERN_PLACES_H
#define TERN_PLACES_H

#include "http/http.h"
#include "util/sha256.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct places {
    pthread_mutex_t lock; // of what follows, up to the next comment
    uint32_t round;
    struct tern_blob *blob; // NULL = none

    // Of the service thread alone.
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t payload;
    bool awaited;     // the leader was, at the last look
    uint32_t refused; // round whose leader's update was refused
};

void places_init(struct places *places);
void places_free(struct places *places);

// Takes the blob over. NULL: that round shares nothing.
void places_set(struct places *places, uint32_t round, struct tern_blob *blob);

// One reference more to the blob of that round, or NULL. Any thread.
struct tern_blob *places_of(struct places *places, uint32_t round);

#endif
