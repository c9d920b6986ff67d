// An update that was accepted, as the sums of its round take it. Who makes one: the federation, or a node that
// checked the update. Plain data.
#ifndef TERN_ARRIVAL_H
#define TERN_ARRIVAL_H

#include "merge/contribution.h"
#include "merge/reading.h"
#include "util/sha256.h"

struct tern_arrival {
    uint64_t client;
    uint32_t round; // that it was made for
    struct tern_contribution contribution;
    struct tern_span container;       // borrowed
    struct tern_reading *reading;     // of the container, or NULL; who takes it may share it
    double sum_square;                // of its values
    uint8_t sha256[TERN_SHA256_SIZE]; // of its body, as it is stored
};

#endif
