// Per-client records for the results: one for each applied update, and one for each client that joined late or came
// back. Plain data; progress.h guards it.
#ifndef TERN_FLEET_RECORDS_H
#define TERN_FLEET_RECORDS_H

#include "meter/meter.h"
#include "result.h"
#include <stddef.h>

struct tern_participation {
    uint32_t version; // version that contains the update
    uint32_t client;  // from 1
    uint32_t local_steps;
    struct tern_bytes up, down; // bytes of the client's round
    double train_ms;            // processor time of local steps
    double codec_ms;            // processor time of downloads and encoding
    double device_ms;           // training time that the client reported
};

// A client's first task after it joined late or was away, before training.
struct tern_arrival {
    uint32_t client;
    uint32_t version; // newest version at that time
    uint32_t missed;  // versions since its last task; since the start for a client that joins
    struct tern_bytes down;
    double accuracy; // figure (fleet/figure.h) of its replica on the test set
};

// Zeroed: empty.
struct tern_records {
    struct tern_participation *participations; // malloc'ed
    size_t participation_count, participation_room;
    struct tern_arrival *arrivals; // malloc'ed
    size_t arrival_count, arrival_room;
};

// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_records_add(struct tern_records *records,
                                                const struct tern_participation *participation);
TERN_MUST_USE enum tern_result tern_records_add_arrival(struct tern_records *records,
                                                        const struct tern_arrival *arrival);

// Sorts by version, then by client: the order of replies is random.
void tern_records_sort(struct tern_records *records);

void tern_records_clear(struct tern_records *records);

#endif
