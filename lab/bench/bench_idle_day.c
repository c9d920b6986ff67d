// Simulates how often an idle device checks in per day under the round machine, with a fake clock, for given settings
// and hold time of a check-in. Prints JSON. Leaves out the device's own jitter, which adds up to a tenth to each wait
// and so only reduces the number.
#include "rounds/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DAYS 30
#define DAY_MS 86400000u
#define START_MS DAY_MS

enum idleness {
    LONELY, // it has enrolled; too few others have for a first round
    STUCK,  // it has reported; the other clients of its round have not
};

struct device {
    struct tern_round_machine machine;
    struct tern_member members[2];
    uint64_t clients[2];
    uint32_t looked_in[DAYS];
};

static enum tern_result begin(struct device *device, const struct tern_round_policy *policy,
                              enum idleness idleness)
{
    struct tern_round_machine *machine = &device->machine;
    tern_round_init(machine, policy, device->members, 2);
    tern_round_client_joined(machine, START_MS);
    device->clients[0] = 1;
    device->clients[1] = 2;
    if (idleness == LONELY) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_open(machine, device->clients, 2, START_MS));
    tern_round_assign_task(tern_round_member(machine, 1), 1, START_MS);
    tern_round_record_report(machine, tern_round_member(machine, 1), START_MS);
    return TERN_OK;
}

static enum tern_result live(struct device *device, uint64_t held_ms)
{
    struct tern_round_machine *machine = &device->machine;
    const uint64_t end = START_MS + (uint64_t)DAYS * DAY_MS;
    for (uint64_t now = START_MS; now < end;) {
        uint64_t wait = 0;
        device->looked_in[(now - START_MS) / DAY_MS]++;
        now += held_ms;
        while (tern_round_tick(machine, now) == TERN_ROUND_EXTEND) {
            TERN_TRY(tern_round_extend(machine, device->clients, 0, machine->deadline_ms));
        }
        if (tern_round_checkin(machine, 1, now, &wait) != TERN_CHECKIN_WAIT) {
            return TERN_ERR_STATE;
        }
        now += wait;
    }
    return TERN_OK;
}

static enum tern_result show(const char *name, const struct tern_round_policy *policy,
                             enum idleness idleness, uint64_t held_ms)
{
    static struct device device;
    uint32_t sum = 0;
    device = (struct device){0};
    TERN_TRY(begin(&device, policy, idleness));
    TERN_TRY(live(&device, held_ms));
    for (int day = 0; day < DAYS; day++) {
        sum += device.looked_in[day];
    }
    printf(" \"%s_first_day\": %" PRIu32 ", \"%s_second_day\": %" PRIu32
           ", \"%s_%d_days\": %" PRIu32,
           name, device.looked_in[0], name, device.looked_in[1], name, DAYS, sum);
    return TERN_OK;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr,
                "usage: bench-idle-day COME_BACK_MIN_MS COME_BACK_MAX_MS DEADLINE_MS HELD_MS\n");
        return 2;
    }
    const struct tern_round_policy policy = {.seed = 1,
                                             .cohort = 2,
                                             .quorum = 2,
                                             .come_back_min_ms = strtoull(argv[1], NULL, 10),
                                             .come_back_max_ms = strtoull(argv[2], NULL, 10),
                                             .deadline_ms = strtoull(argv[3], NULL, 10)};
    const uint64_t held_ms = strtoull(argv[4], NULL, 10);
    printf("{");
    enum tern_result result = show("lonely", &policy, LONELY, held_ms);
    if (result == TERN_OK) {
        printf(",\n");
        result = show("stuck", &policy, STUCK, held_ms);
    }
    printf("}\n");
    return result == TERN_OK ? 0 : 1;
}
