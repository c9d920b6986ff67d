// How fast a client trains, measured from its reports. Who calls: the service, when an update was
// accepted, or given back since it came late. Pure; reentrant.
#ifndef TERN_SPEED_H
#define TERN_SPEED_H

#include <stdint.h>

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

#endif
