// A clock on which a local step takes as long as on the device that a client stands for: it runs as
// the real one but during training, when only the steps done move it on. So the client reports, and
// the aggregator measures, the device's speed, and nobody waits for it. Never goes back. One
// client's, from its thread.
#ifndef TERN_FLEET_VIRTUAL_CLOCK_H
#define TERN_FLEET_VIRTUAL_CLOCK_H

#include "ports.h"

struct tern_virtual_clock {
    struct tern_clock real;
    double speed;     // steps per second; 0 = real time always
    double ahead_ms;  // of the real clock; may be negative
    double frozen_ms; // what it shows during training
    bool training;
};

// *clock is borrowed by the port; real and speed are set, the rest zeroed.
struct tern_clock tern_virtual_clock_port(struct tern_virtual_clock *clock);

// Training begins, has done a step, ends (or failed; harmless when it is not under way).
void tern_virtual_clock_begin(struct tern_virtual_clock *clock);
void tern_virtual_clock_step(struct tern_virtual_clock *clock);
void tern_virtual_clock_end(struct tern_virtual_clock *clock);

#endif
