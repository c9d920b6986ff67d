// The generated table as a kind of data: "sensors:train=6000,test=2000,devices=50,seed=1". With target=N
// reading N is to be told from the others; with anomalies=SHARE so many test examples have faults.
#include "data/generated.h"
#include "data/sensors.h"
#include <stdlib.h>
#include <string.h>

#define NO_TARGET TERN_SENSORS_COLUMNS
#define FAULTY 3   // readings of an anomaly
#define FAULT 4.0f // deviations that they are off

struct sensors_options {
    uint64_t target; // NO_TARGET: the machine's state is to be told
    float anomalies; // share of the test examples
    bool faults;     // anomalies are to be found
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

// Shifts a few readings either way. Whether and which depends on the example alone.
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
        const float way = tern_prng_below(&rng, 2) == 0 ? -FAULT : FAULT;
        values[column] += way * machine->scale[column];
    }
    return 1;
}

// Moves the target out of the readings.
static float take_target(float readings[TERN_SENSORS_COLUMNS], uint64_t column)
{
    const float target = readings[column];
    const size_t behind = TERN_SENSORS_COLUMNS - 1 - (size_t)column;
    memmove(readings + column, readings + column + 1, behind * sizeof *readings);
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
        part->targets[i] = take_target(readings, options->target);
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
    TERN_TRY(tern_generated_take(spec, limits, &set, &shape, true, data, parts));
    tern_sensors_machine(set.seed, &machine);
    for (unsigned test = 0; test < 2; test++) {
        for (uint32_t i = 0; i < parts[test].count; i++) {
            draw(&machine, &options, &parts[test], set.groups, test != 0, i);
        }
    }
    return TERN_OK;
}
