#include "data/sensors.h"
#include "data/generated.h"
#include "util/math.h"
#include "util/sqrt.h"

// Only +, -, *, / and the functions of util/math.h, so that every machine draws the same bits; and
// one draw of a random number per statement, because C leaves the order within an expression to the
// compiler.

#define HIDDEN TERN_SENSORS_HIDDEN
#define COLUMNS TERN_SENSORS_COLUMNS
#define CLASSES TERN_SENSORS_CLASSES

#define STATE_SPREAD 1.7f // deviation of the states' centres
#define WITHIN_STATE 0.5f // deviation around a centre
#define OF_DEVICE 0.25f   // deviation of a device's centre, offset and logarithm of gain
#define MIX_ALPHA 1.0f    // of the Dirichlet distribution of a device's states

// What one device adds to the machine.
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
        // 0.1 to 2.7, log-uniform.
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

// What sensor `column` makes of a quantity of deviation about 1.
static float respond(unsigned column, float x, struct tern_prng *rng)
{
    switch (column % 6) {
    case 0: // a current, a pressure: as it is
        return x;
    case 1: // a vibration, log-normal: a heavy tail to the right
        return tern_expf(0.8f * x) - 1.4f;
    case 2: // a thermometer that saturates
        return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
    case 3: // a power
        return x * x - 1.0f;
    case 4: // loose contact: one reading in fifty is off by ten deviations and more
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
    const float response = respond(column, x, rng);
    return machine->scale[column] * (device->gain[column] * response + device->offset[column]);
}

uint16_t tern_sensors_draw(const struct tern_sensors_machine *machine, bool test, uint32_t index,
                           uint32_t devices, float *values, uint32_t *device)
{
    struct tern_prng rng;
    struct device own;
    float hidden[HIDDEN];
    tern_prng_init(&rng, machine->seed, TERN_PRNG_DATA,
                   test ? TERN_DATA_SENSORS_TEST : TERN_DATA_SENSORS_TRAIN, index);
    *device = tern_generated_group(&rng, machine->seed, TERN_DATA_SENSORS_DEVICE, devices, index);
    make_device(machine->seed, *device, &own);
    const uint32_t state = tern_random_index(&rng, own.mix, CLASSES);
    const uint32_t mode = tern_prng_below(&rng, TERN_SENSORS_MODES);
    for (unsigned h = 0; h < HIDDEN; h++) {
        hidden[h] = machine->states[state][mode][h] + own.shift[h] +
                    WITHIN_STATE * tern_random_normal(&rng);
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        values[c] = read_sensor(machine, &own, c, hidden, &rng);
    }
    return (uint16_t)state;
}
