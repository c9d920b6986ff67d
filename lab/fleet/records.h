// What single clients did, kept for the results: one record for each update that was applied, and
// one for each client that arrived late or came back. Plain data; progress.h guards it.
#ifndef TERN_FLEET_RECORDS_H
#define TERN_FLEET_RECORDS_H

#include "meter/meter.h"
#include "result.h"
#include <stddef.h>

struct tern_participation {
    uint32_t version; // that the update helped to make
    uint32_t client;  // number in the fleet, from 1
    uint32_t local_steps;
    struct tern_bytes up, down; // of the client's round
    double train_ms;            // processor time of the local steps
    double codec_ms;  // processor time of fetching and applying downloads, and of encoding
    double device_ms; // training time that the aggregator was told
};

// A client's first task after it joined late or was away, before it trained.
struct tern_arrival {
    uint32_t client;
    uint32_t version; // the newest then
    uint32_t missed;  // versions since it was last here; of one that joins, all
    struct tern_bytes down;
    double accuracy; // figure of its replica on the test set
};

// Zeroed = empty.
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

// By version, then by client: the order in which replies came says nothing.
void tern_records_sort(struct tern_records *records);

void tern_records_clear(struct tern_records *records);

#endif
