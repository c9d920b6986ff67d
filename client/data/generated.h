// Generates data: sounds (audio.c), digits (digits.c) and sensor readings (sensors.c). The functions of generated.c, which
// their readers share, read the options train, test and seed, allocate memory, and draw the group of each example. Called by
// the readers and tests. Reentrant.
#ifndef TERN_GENERATED_H
#define TERN_GENERATED_H

#include "data/random.h"
#include "data/readers.h"

// The size of a generated data set. tern_generated_options() sets it.
struct tern_generated {
    uint32_t train; // examples
    uint32_t test;
    uint32_t groups; // 0: none
    uint64_t seed;
    bool targets; // the examples have targets, not labels
};

// The arrays of the training or test examples while they are drawn. The data set owns the arrays.
struct tern_generated_part {
    uint32_t count;
    uint8_t *bytes; // [count][features], or NULL when the examples are values
    float *values;
    uint16_t *labels;
    float *targets;   // NULL: none
    uint32_t *groups; // NULL: none
};

// Reads the options train, test and seed, and the number of groups, 1 to train. groups: the name of the option with that
// number; NULL: the kind of data has no groups. *set: the defaults, which the options replace. Errors of tern_spec_number()
TERN_MUST_USE enum tern_result tern_generated_options(struct tern_data_spec *spec,
                                                      const struct tern_data_limits *limits,
                                                      const char *groups,
                                                      struct tern_generated *set);

// Allocates the training examples (parts[0]) and the test examples (parts[1]), with the height, width, channels and class_count
// of `shape`. float_values: the examples are float32 values; otherwise they are bytes.
// TERN_ERR_TOO_LARGE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_generated_allocate(const struct tern_data_spec *spec,
                                                       const struct tern_data_limits *limits,
                                                       const struct tern_generated *set,
                                                       const struct tern_dataset *shape,
                                                       bool float_values, struct tern_data *data,
                                                       struct tern_generated_part parts[2]);

// Returns the group of example `index`. For index < groups it is group `index`, so that no group is empty. For the other
// examples it is drawn from rng, the example's stream, with a weight of 1/4 to 1 for each group. A group's weight is the first
// draw of stream number `stream` of that group.
uint32_t tern_generated_group(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                              uint32_t groups, uint32_t index);

// Sets *rng to the stream of a group, after the draw of the group's weight.
void tern_generated_group_begin(struct tern_prng *rng, uint64_t seed, enum tern_data_stream stream,
                                uint32_t group);

// --- Sounds

// Generates sounds as log-power spectrograms of 16 frequency bands (rows, the lowest first) by 32 frames (columns).
// Classes: 0 steady tone, 1 rising chirp, 2 falling chirp, 3 vibrato, 4 tremolo, 5 warble between two notes, 6 chord of two
// tones, 7 clicks, 8 noise burst, 9 noise of one band. Every speaker has its own pitch, pace, timbre and mix of classes, in
// a room with noise, hum and echo of its own. Powers are exponentially distributed, as in a periodogram, so that a single cell
// carries little information. The same seed gives the same bits on every machine. Pure; reentrant.

#define TERN_AUDIO_BANDS 16
#define TERN_AUDIO_FRAMES 32
#define TERN_AUDIO_CLASSES 10

// Draws training or test example `index` into spectrogram[TERN_AUDIO_BANDS * TERN_AUDIO_FRAMES], and returns its class. Equal
// arguments give equal results. *speaker: the example's speaker, 0 to speakers - 1.
uint16_t tern_audio_draw(uint64_t seed, bool test, uint32_t index, uint32_t speakers,
                         uint8_t *spectrogram, uint32_t *speaker);

// --- Digits

// Generates images of the digits 0 to 9: bent and tilted strokes of varying thickness and contrast, with stray strokes and
// noise, so that a demonstration or test needs no download. A linear model reaches less than 0.93 accuracy, a small CNN more
// than 0.96. The same seed gives the same bits on every machine. Pure; reentrant.

// Draws training or test example `index` into image[size * size] (0 = background), and returns its label. Equal arguments give
// equal results. size: 16 to 64.
uint16_t tern_digits_draw(uint64_t seed, bool test, uint32_t index, uint32_t size, uint8_t *image);

// --- Sensor readings

// Generates a table: 24 sensor readings of machines of one make, each in one of eight states. A few hidden quantities determine
// all columns, so that columns are correlated; a column is linear in them, saturated, quantised, squared, heavy-tailed or full
// of spikes. Readings are divided by the sensor's nominal range, which a device knows without other devices' data. They are not
// standardised: the columns' deviations are about 0.1 to 4. Devices differ in the offsets and gains of their sensors, in the
// centre of their hidden quantities and in how often each state occurs. The same seed gives the same bits on every machine.
// Pure; reentrant.

#define TERN_SENSORS_COLUMNS 24
#define TERN_SENSORS_CLASSES 8
#define TERN_SENSORS_HIDDEN 6 // hidden quantities
#define TERN_SENSORS_MODES 2  // centres of a state

// The properties that all devices have in common. Initialised by tern_sensors_machine().
struct tern_sensors_machine {
    uint64_t seed;
    float states[TERN_SENSORS_CLASSES][TERN_SENSORS_MODES][TERN_SENSORS_HIDDEN];
    float loads[TERN_SENSORS_COLUMNS][TERN_SENSORS_HIDDEN]; // weights of the quantities in a column
    float scale[TERN_SENSORS_COLUMNS];                      // deviation divided by nominal range
};

// Draws the properties of all devices from the seed.
void tern_sensors_machine(uint64_t seed, struct tern_sensors_machine *machine);

// Draws training or test example `index` into values[TERN_SENSORS_COLUMNS], and returns its class. Equal arguments give equal
// results. *device: the example's device, 0 to devices - 1.
uint16_t tern_sensors_draw(const struct tern_sensors_machine *machine, bool test, uint32_t index,
                           uint32_t devices, float *values, uint32_t *device);

#endif
