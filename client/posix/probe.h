// What a Linux machine shows of itself, one file per probe. Each reads below a root directory, ""
// on a real machine, and says what it read and from where; what it cannot read, or does not
// believe, is unknown. Called by conditions.c and its tests; one thread at a time.
#ifndef TERN_POSIX_PROBE_H
#define TERN_POSIX_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_READING_TEXT 128
#define TERN_PROBE_PATH 512

struct tern_reading {
    bool known;
    double value;                 // as each probe says; 0 while unknown
    char said[TERN_READING_TEXT]; // what was read, or why nothing was: a clause for people
    char from[TERN_READING_TEXT]; // the file, folder or service
};

// --- Files

// Reads root/path, cut at size - 1 bytes, and never waits. Returns false, and "", when it cannot be
// read, is empty, or is no text.
bool tern_probe_text(const char *root, const char *path, char *text, size_t size);

// The same for its first line, without the newline.
bool tern_probe_line(const char *root, const char *path, char *line, size_t size);

// Reads a whole number from a text with nothing behind it. Returns false on anything else, and on
// what does not fit.
bool tern_probe_number(const char *text, long *number);

// Fills a reading: the value, or that there is none, and why in printf's way.
void tern_reading_known(struct tern_reading *reading, double value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tern_reading_unknown(struct tern_reading *reading, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- Probes

// ROOT/sys/class/power_supply, peripherals' batteries left out.
// charging: 1 when power comes from outside and no battery runs down, 0 when a battery feeds the
// machine; unknown when nothing tells. battery: charge of the emptiest battery, in percent.
void tern_probe_power(const char *root, struct tern_reading *charging,
                      struct tern_reading *battery);

// ROOT/proc/loadavg over one minute per processor of ROOT/sys/devices/system/cpu/online, less
// `own`: the load that the caller's own work makes.
void tern_probe_load(const char *root, double own, struct tern_reading *load);

// The hottest believable zone of ROOT/sys/class/thermal, in degrees Celsius.
void tern_probe_temperature(const char *root, struct tern_reading *temperature);

// --- Whether the link is metered (NetworkManager, D-Bus)

// A connection to the bus, kept between the calls. Zero at first.
struct tern_metered_probe {
    void *connection;
};

// Asks NetworkManager for its Metered property, on the bus of DBUS_SYSTEM_BUS_ADDRESS or else at
// ROOT/run/dbus/system_bus_socket: 1 for "yes" and "guess-yes", 0 for "no" and "guess-no", unknown
// for all else: no bus, no NetworkManager, no answer within a second, built without D-Bus.
void tern_probe_metered(struct tern_metered_probe *probe, const char *root,
                        struct tern_reading *metered);

// Closes the connection, if there is one; the next question opens another.
void tern_probe_metered_close(struct tern_metered_probe *probe);

#endif
