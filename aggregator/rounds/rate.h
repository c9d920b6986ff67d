// The learning rate of local training over the rounds. Who calls: the service, when it opens a
// round. Pure; reentrant.
#ifndef TERN_RATE_H
#define TERN_RATE_H

#include "result.h"
#include <stdint.h>

enum tern_rate_schedule {
    TERN_RATE_CONSTANT,
    TERN_RATE_COSINE, // from first to last over the rounds, half a cosine wave
};

// "constant" or "cosine". TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_rate_schedule_from_name(const char *name,
                                                            enum tern_rate_schedule *schedule);

// Learning rate of `round` (1..rounds); rounds 0 = no end, which keeps the first rate. The same
// bits everywhere: no libm.
float tern_rate_for(enum tern_rate_schedule schedule, float first, float last, uint32_t round,
                    uint32_t rounds);

#endif
