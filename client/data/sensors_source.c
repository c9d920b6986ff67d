// The generated table as a kind of data: "sensors:train=6000,test=2000,devices=50,seed=1".
#include "data/generated.h"
#include "data/sensors.h"

enum tern_result tern_read_sensors(struct tern_data_spec *spec,
                                   const struct tern_data_limits *limits, struct tern_data *data)
{
    struct tern_generated set = {.train = 6000, .test = 2000, .groups = 50, .seed = 1};
    struct tern_generated_part parts[2];
    struct tern_sensors_machine machine;
    const struct tern_dataset shape = {.height = 1,
                                       .width = TERN_SENSORS_COLUMNS,
                                       .channels = 1,
                                       .class_count = TERN_SENSORS_CLASSES};
    TERN_TRY(tern_generated_options(spec, limits, "devices", &set));
    TERN_TRY(tern_spec_done(spec, "train, test, devices, seed"));
    TERN_TRY(tern_generated_take(spec, limits, &set, &shape, true, data, parts));
    tern_sensors_machine(set.seed, &machine);
    for (unsigned test = 0; test < 2; test++) {
        const struct tern_generated_part *part = &parts[test];
        for (uint32_t i = 0; i < part->count; i++) {
            float *values = part->values + (size_t)i * TERN_SENSORS_COLUMNS;
            part->labels[i] =
                tern_sensors_draw(&machine, test != 0, i, set.groups, values, &part->groups[i]);
        }
    }
    return TERN_OK;
}
