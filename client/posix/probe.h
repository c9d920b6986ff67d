// Reads the state of a Linux machine: power, load, temperature, metered link. Each probe reads below a root directory,
// "" on a real machine, and reports the value and its source; unreadable or implausible values are unknown. Called by
// conditions.c and tests; one thread at a time.
#ifndef TERN_POSIX_PROBE_H
#define TERN_POSIX_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_READING_TEXT 128
#define TERN_PROBE_PATH 512

struct tern_reading {
    bool known;
    double value;                 // in the probe's unit; 0 while unknown
    char said[TERN_READING_TEXT]; // the value, or why there is none: a clause for people
    char from[TERN_READING_TEXT]; // the file, folder or service
};

// Fills a reading with a value or with the reason for having none, formatted like printf().
void tern_reading_known(struct tern_reading *reading, double value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tern_reading_unknown(struct tern_reading *reading, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- Probes

// ROOT/sys/class/power_supply, peripherals' batteries left out.
// charging: 1 when power comes from outside and no battery discharges, 0 when a battery powers the machine. battery: charge
// of the emptiest battery in percent.
void tern_probe_power(const char *root, struct tern_reading *charging,
                      struct tern_reading *battery);

// ROOT/proc/loadavg over one minute, minus `own` (the load of the caller's work), per processor in
// ROOT/sys/devices/system/cpu/online.
void tern_probe_load(const char *root, double own, struct tern_reading *load);

// The hottest plausible zone of ROOT/sys/class/thermal in degrees Celsius.
void tern_probe_temperature(const char *root, struct tern_reading *temperature);

// --- Whether the link is metered (NetworkManager, D-Bus)

// A connection to the bus, kept between calls. The caller zeroes it first.
struct tern_metered_probe {
    void *connection;
};

// Reads NetworkManager's Metered property over the bus of DBUS_SYSTEM_BUS_ADDRESS or
// ROOT/run/dbus/system_bus_socket: 1 for "yes" and "guess-yes", 0 for "no" and "guess-no". Unknown without a bus, without
// NetworkManager, without an answer within a second, and in builds without D-Bus.
void tern_probe_metered(struct tern_metered_probe *probe, const char *root,
                        struct tern_reading *metered);

// Closes the connection, if there is one; the next query opens another.
void tern_probe_metered_close(struct tern_metered_probe *probe);

#endif
