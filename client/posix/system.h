// Clock, entropy and conditions of a Linux machine. The clock and entropy ports may be shared by
// threads; conditions belong to one client.
#ifndef TERN_POSIX_SYSTEM_H
#define TERN_POSIX_SYSTEM_H

#include "ports.h"

// CLOCK_MONOTONIC and the date; the date is unknown before 2020-01-01.
struct tern_clock tern_posix_clock(void);

// getrandom().
struct tern_entropy tern_posix_entropy(void);

struct tern_posix_conditions {
    bool metered;            // what the owner says about the link
    bool only_on_mains;      // do not work on battery
    const char *power_dir;   // NULL = /sys/class/power_supply
    const char *memory_file; // NULL = /proc/meminfo
};

// *conditions is borrowed. Works unless only_on_mains is set and the machine runs on battery.
struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions);

#endif
