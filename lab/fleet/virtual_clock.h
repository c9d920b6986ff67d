// A clock that runs at the simulated device's speed during training: each local step advances it by the device's
// time. Outside of training it runs like the real clock. The client reports, and the aggregator measures, the
// device's speed without any waiting. Monotonic. Used by one client, in its thread.
#ifndef TERN_FLEET_VIRTUAL_CLOCK_H
#define TERN_FLEET_VIRTUAL_CLOCK_H

#include "ports.h"

struct tern_virtual_clock {
    struct tern_clock real;
    double speed;     // steps per second; 0: real time
    double ahead_ms;  // difference to the real clock; may be negative
    double frozen_ms; // time shown during training
    bool training;
};

// The port borrows *clock. The caller sets real and speed, the rest is zero.
struct tern_clock tern_virtual_clock_port(struct tern_virtual_clock *clock);

// Called when training begins, after each step, and when it ends or fails. The last is harmless outside of training.
void tern_virtual_clock_begin(struct tern_virtual_clock *clock);
void tern_virtual_clock_step(struct tern_virtual_clock *clock);
void tern_virtual_clock_end(struct tern_virtual_clock *clock);

#endif
