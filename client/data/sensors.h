// Generates a table: 24 sensor readings of machines of one make, each in one of eight states. A few hidden quantities
// determine all columns, so that columns are correlated; a column is linear in them, saturated, quantised, squared,
// heavy-tailed or full of spikes. Readings are divided by the sensor's nominal range, which a device has without other
// devices' data, and not standardised: the columns' deviations are about 0.1 to 4. Every device has its own offsets, gains,
// centre of the hidden quantities and mix of states. The same seed gives the same bits on every machine. Pure; reentrant.
#ifndef TERN_SENSORS_H
#define TERN_SENSORS_H

#include <stdbool.h>
#include <stdint.h>

#define TERN_SENSORS_COLUMNS 24
#define TERN_SENSORS_CLASSES 8
#define TERN_SENSORS_HIDDEN 6 // hidden quantities
#define TERN_SENSORS_MODES 2  // centres of a state

// The properties that all devices share. Made by tern_sensors_machine().
struct tern_sensors_machine {
    uint64_t seed;
    float states[TERN_SENSORS_CLASSES][TERN_SENSORS_MODES][TERN_SENSORS_HIDDEN];
    float loads[TERN_SENSORS_COLUMNS][TERN_SENSORS_HIDDEN]; // weights of the quantities in a column
    float scale[TERN_SENSORS_COLUMNS];                      // deviation divided by nominal range
};

void tern_sensors_machine(uint64_t seed, struct tern_sensors_machine *machine);

// Draws example `index` of the training or test part into values[TERN_SENSORS_COLUMNS], and returns its class. The result
// depends on the arguments alone. *device: the example's device, below `devices`.
uint16_t tern_sensors_draw(const struct tern_sensors_machine *machine, bool test, uint32_t index,
                           uint32_t devices, float *values, uint32_t *device);

#endif
