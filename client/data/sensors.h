// A generated table: 24 sensor readings of machines of one make, each in one of eight states. A few
// hidden quantities move all columns, so that columns are correlated; a column is linear in them,
// saturated, quantised, squared, heavy-tailed or full of spikes. Readings are divided by the
// sensor's nominal range, which a device knows without anybody else's data, and not standardised:
// the columns' deviations lie between about 0.1 and 4. Every device has offsets and gains of its
// own, wanders off by itself in the hidden quantities, and is in some states more often than in
// others. Made from a seed with the same bits everywhere. Pure; reentrant.
#ifndef TERN_SENSORS_H
#define TERN_SENSORS_H

#include <stdbool.h>
#include <stdint.h>

#define TERN_SENSORS_COLUMNS 24
#define TERN_SENSORS_CLASSES 8
#define TERN_SENSORS_HIDDEN 6 // quantities
#define TERN_SENSORS_MODES 2  // ways to be in a state

// What all devices have in common. Made by tern_sensors_machine().
struct tern_sensors_machine {
    uint64_t seed;
    float states[TERN_SENSORS_CLASSES][TERN_SENSORS_MODES][TERN_SENSORS_HIDDEN];
    float loads[TERN_SENSORS_COLUMNS][TERN_SENSORS_HIDDEN]; // of the columns on the quantities
    float scale[TERN_SENSORS_COLUMNS];                      // deviation over nominal range
};

void tern_sensors_machine(uint64_t seed, struct tern_sensors_machine *machine);

// Draws example `index` of the training or the test part into values[TERN_SENSORS_COLUMNS] and
// returns its class. It depends on its arguments alone. *device: whose it is, below `devices`.
uint16_t tern_sensors_draw(const struct tern_sensors_machine *machine, bool test, uint32_t index,
                           uint32_t devices, float *values, uint32_t *device);

#endif
