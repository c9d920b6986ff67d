// How much a client trains in a round: local steps and learning rate. Who calls: the service, when
// it hands out a task or opens a round. Pure; reentrant.
#ifndef TERN_SCHEDULE_H
#define TERN_SCHEDULE_H

#include "result.h"
#include <stdint.h>

enum tern_steps_policy {
    TERN_STEPS_FIXED,    // the same for every client
    TERN_STEPS_DEADLINE, // as many as the client's measured speed fits into the window
};

struct tern_steps_settings {
    enum tern_steps_policy policy;
    uint32_t local_steps; // fixed; also for clients of unknown speed
    uint32_t min_steps;   // deadline: bounds
    uint32_t max_steps;
    double fraction; // deadline: share of the window that may go into training, 0..1
};

#define TERN_STEPS_REASON_MAX 96

// "fixed" or "deadline". TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_steps_policy_from_name(const char *name,
                                                           enum tern_steps_policy *policy);

// Local steps for a client that does steps_per_second (0 = unknown) with window_ms left until the
// round's deadline. reason: why, for people, e.g. "deadline: 41.0 steps/s x 30.0 s x 0.50".
uint32_t tern_steps_for(const struct tern_steps_settings *settings, float steps_per_second,
                        uint64_t window_ms, char reason[TERN_STEPS_REASON_MAX]);

// What a client did in its last rounds, the newest weighing 0.3 and each before it less. Zeros =
// none.
struct tern_steps_done {
    float steps;
    float ms;
};

// The speed after a report of local_steps in train_ms: smoothed steps by smoothed time, so that a
// long training says more than a short one, of which milliseconds measure little, and a round at
// half the speed costs the next a quarter. known: the speed before, for when *done is empty; 0 =
// none. 0 ms stands for half of one. A report of 0 steps changes nothing.
float tern_steps_speed(struct tern_steps_done *done, float known, uint32_t local_steps,
                       uint32_t train_ms);

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
