#include "data/generated.h"
#include "util/math.h"

#include <stdlib.h>
#include <string.h>

// --- The reader

// Generates the table for "sensors:train=6000,test=2000,devices=50,seed=1". With target=N models predict reading N from the
// others; with anomalies=FRACTION that fraction of the test examples has faults.

#define NO_TARGET TERN_SENSORS_COLUMNS
#define FAULTY 3   // shifted readings of an anomaly
#define FAULT 4.0f // their shift, in deviations

struct sensors_options {
    uint64_t target; // NO_TARGET: the label is the machine's state
    float anomalies; // fraction of the test examples
    bool faults;     // the label is 1 for an anomaly and 0 for a normal example
};

static enum tern_result read_options(struct tern_data_spec *spec, struct sensors_options *options)
{
    *options = (struct sensors_options){.target = NO_TARGET};
    TERN_TRY(tern_spec_number(spec, "target", 0, TERN_SENSORS_COLUMNS - 1, &options->target));
    TERN_TRY(tern_spec_fraction(spec, "anomalies", 0.0f, 0.9f, &options->anomalies));
    options->faults = tern_spec_option(spec, "anomalies") != NULL;
    return options->faults && options->target != NO_TARGET
               ? tern_spec_refuse(spec, TERN_ERR_CONFIG, "takes target or anomalies, not both")
               : TERN_OK;
}

// Makes the example an anomaly with probability `share`, by shifting a few readings up or down. Returns the label: 1 for an
// anomaly, otherwise 0. The result depends only on the machine's seed and the index.
static uint16_t make_fault(const struct tern_sensors_machine *machine, uint32_t index, float share,
                           float *values)
{
    struct tern_prng rng;
    tern_prng_init(&rng, machine->seed, TERN_PRNG_DATA, TERN_DATA_SENSORS_FAULT, index);
    if (tern_prng_float(&rng) >= share) {
        return 0;
    }
    for (unsigned i = 0; i < FAULTY; i++) {
        const uint32_t column = tern_prng_below(&rng, TERN_SENSORS_COLUMNS);
        const float shift = tern_prng_below(&rng, 2) == 0 ? -FAULT : FAULT;
        values[column] += shift * machine->scale[column];
    }
    return 1;
}

// Removes the reading of a column, which becomes the target, and returns it.
static float remove_target(float readings[TERN_SENSORS_COLUMNS], uint64_t column)
{
    const float target = readings[column];
    const size_t following = TERN_SENSORS_COLUMNS - 1 - (size_t)column;
    memmove(readings + column, readings + column + 1, following * sizeof *readings);
    return target;
}

static void draw(const struct tern_sensors_machine *machine, const struct sensors_options *options,
                 const struct tern_generated_part *part, uint32_t devices, bool test, uint32_t i)
{
    float readings[TERN_SENSORS_COLUMNS];
    const bool target = options->target != NO_TARGET;
    const size_t features = TERN_SENSORS_COLUMNS - (target ? 1 : 0);
    part->labels[i] = tern_sensors_draw(machine, test, i, devices, readings, &part->groups[i]);
    if (options->faults) {
        part->labels[i] = test ? make_fault(machine, i, options->anomalies, readings) : 0;
    }
    if (target) {
        part->labels[i] = 0;
        part->targets[i] = remove_target(readings, options->target);
    }
    memcpy(part->values + i * features, readings, features * sizeof *readings);
}

enum tern_result tern_read_sensors(struct tern_data_spec *spec,
                                   const struct tern_data_limits *limits, struct tern_data *data)
{
    struct tern_generated set = {.train = 6000, .test = 2000, .groups = 50, .seed = 1};
    struct tern_generated_part parts[2];
    struct tern_sensors_machine machine;
    struct sensors_options options;
    TERN_TRY(tern_generated_options(spec, limits, "devices", &set));
    TERN_TRY(read_options(spec, &options));
    TERN_TRY(tern_spec_done(spec, "train, test, devices, seed, target, anomalies"));
    const bool target = options.target != NO_TARGET;
    const struct tern_dataset shape = {.height = 1,
                                       .width = TERN_SENSORS_COLUMNS - (target ? 1 : 0),
                                       .channels = 1,
                                       .class_count = target           ? 1
                                                      : options.faults ? 2
                                                                       : TERN_SENSORS_CLASSES};
    set.targets = target;
    TERN_TRY(tern_generated_allocate(spec, limits, &set, &shape, true, data, parts));
    tern_sensors_machine(set.seed, &machine);
    for (unsigned test = 0; test < 2; test++) {
        for (uint32_t i = 0; i < parts[test].count; i++) {
            draw(&machine, &options, &parts[test], set.groups, test != 0, i);
        }
    }
    return TERN_OK;
}

// --- Drawing

// For the same bits on every machine: only +, -, *, / and the functions of util/math.h; and one random draw per statement,
// because C does not define the order within an expression.

#define HIDDEN TERN_SENSORS_HIDDEN
#define COLUMNS TERN_SENSORS_COLUMNS
#define CLASSES TERN_SENSORS_CLASSES

#define STATE_SPREAD 1.7f // deviation of the states' centres
#define WITHIN_STATE 0.5f // deviation around a centre
#define OF_DEVICE 0.25f   // deviation of a device's centre, offset and logarithm of gain
#define MIX_ALPHA 1.0f    // Dirichlet parameter of a device's mix of states

// The properties in which devices differ.
struct device {
    float mix[CLASSES];
    float shift[HIDDEN];
    float gain[COLUMNS];
    float offset[COLUMNS];
};

void tern_sensors_machine(uint64_t seed, struct tern_sensors_machine *machine)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_DATA, TERN_DATA_SENSORS_MACHINE, 0);
    machine->seed = seed;
    for (unsigned i = 0; i < CLASSES * TERN_SENSORS_MODES * HIDDEN; i++) {
        const unsigned mode = i / HIDDEN % TERN_SENSORS_MODES;
        const unsigned state = i / HIDDEN / TERN_SENSORS_MODES;
        machine->states[state][mode][i % HIDDEN] = STATE_SPREAD * tern_random_normal(&rng);
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        float square = 0.0f;
        for (unsigned h = 0; h < HIDDEN; h++) {
            machine->loads[c][h] = tern_random_normal(&rng);
            square += machine->loads[c][h] * machine->loads[c][h];
        }
        const float length = (float)tern_sqrt((double)square);
        for (unsigned h = 0; h < HIDDEN; h++) {
            machine->loads[c][h] /= length;
        }
        // Log-uniform, 0.1 to 2.7.
        machine->scale[c] = tern_expf(tern_random_between(&rng, -2.3f, 1.0f));
    }
}

static void make_device(uint64_t seed, uint32_t number, struct device *device)
{
    struct tern_prng rng;
    tern_generated_group_begin(&rng, seed, TERN_DATA_SENSORS_DEVICE, number);
    tern_random_shares(&rng, MIX_ALPHA, device->mix, CLASSES);
    for (unsigned h = 0; h < HIDDEN; h++) {
        device->shift[h] = OF_DEVICE * tern_random_normal(&rng);
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        device->gain[c] = tern_expf(OF_DEVICE * tern_random_normal(&rng));
        device->offset[c] = OF_DEVICE * tern_random_normal(&rng);
    }
}

// Returns the reading of sensor `column` for a quantity with a deviation of about 1.
static float sensor_response(unsigned column, float x, struct tern_prng *rng)
{
    switch (column % 6) {
    case 0: // a linear sensor, like one of current or pressure
        return x;
    case 1: // a vibration, log-normal: a heavy tail to the right
        return tern_expf(0.8f * x) - 1.4f;
    case 2: // a thermometer that saturates
        return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
    case 3: // a squared quantity, like an electrical power
        return x * x - 1.0f;
    case 4: // a loose contact: one reading in fifty is a spike
        return tern_prng_below(rng, 50) == 0 ? 10.0f * tern_random_normal(rng) : x;
    default: // a counter
        return (float)tern_round_to_int(2.0f * x) * 0.5f;
    }
}

static float read_sensor(const struct tern_sensors_machine *machine, const struct device *device,
                         unsigned column, const float *hidden, struct tern_prng *rng)
{
    float x = 0.3f * tern_random_normal(rng);
    for (unsigned h = 0; h < HIDDEN; h++) {
        x += 0.5f * machine->loads[column][h] * hidden[h];
    }
    const float response = sensor_response(column, x, rng);
    return machine->scale[column] * (device->gain[column] * response + device->offset[column]);
}

uint16_t tern_sensors_draw(const struct tern_sensors_machine *machine, bool test, uint32_t index,
                           uint32_t devices, float *values, uint32_t *device)
{
    struct tern_prng rng;
    struct device properties;
    float hidden[HIDDEN];
    tern_prng_init(&rng, machine->seed, TERN_PRNG_DATA,
                   test ? TERN_DATA_SENSORS_TEST : TERN_DATA_SENSORS_TRAIN, index);
    *device = tern_generated_group(&rng, machine->seed, TERN_DATA_SENSORS_DEVICE, devices, index);
    make_device(machine->seed, *device, &properties);
    const uint32_t state = tern_random_index(&rng, properties.mix, CLASSES);
    const uint32_t mode = tern_prng_below(&rng, TERN_SENSORS_MODES);
    for (unsigned h = 0; h < HIDDEN; h++) {
        hidden[h] = machine->states[state][mode][h] + properties.shift[h] +
                    WITHIN_STATE * tern_random_normal(&rng);
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        values[c] = read_sensor(machine, &properties, c, hidden, &rng);
    }
    return (uint16_t)state;
}
