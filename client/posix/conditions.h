// Decides whether a Linux machine is in a state in which its owner lets it work: parses client.when (when.c), reads power, load,
// temperature and metered link, compares, and implements the client's condition port. An unreadable
// condition counts as not met, since the bill, the battery and the machine are worth more than a round. Called by client/cli;
// one thread at a time. Parsing is pure.
#ifndef TERN_POSIX_CONDITIONS_H
#define TERN_POSIX_CONDITIONS_H

#include "ports.h"
#include "result.h"

// --- client.when

#define TERN_WHEN_WHY_MAX 256

// `idle` is short for this load, of other work, per processor.
#define TERN_WHEN_IDLE_LOAD 0.3

enum tern_condition {
    TERN_CONDITION_UNMETERED = 0, // the link is not paid by the byte
    TERN_CONDITION_CHARGING,      // power comes from outside
    TERN_CONDITION_LOAD,          // below a limit, per processor; `idle`
    TERN_CONDITION_TEMPERATURE,   // below a limit, degrees Celsius
    TERN_CONDITION_BATTERY,       // above a limit, percent
    TERN_CONDITION_COUNT
};

struct tern_when {
    bool required[TERN_CONDITION_COUNT];
    double limit[TERN_CONDITION_COUNT]; // for conditions with a limit
};

// Reads "unmetered, charging, idle, load<1.5, temperature<70, battery>40": any of them, in any
// order; empty = none.
// TERN_ERR_CONFIG  why describes the error and lists the conditions; *when is unchanged
TERN_MUST_USE enum tern_result tern_when_parse(const char *text, struct tern_when *when,
                                               char why[TERN_WHEN_WHY_MAX]);

// Static string: "unmetered", ...
const char *tern_condition_name(enum tern_condition condition);

// '<' or '>' of a condition with a limit, else '\0'.
char tern_condition_sign(enum tern_condition condition);

// Writes the condition with its limit: "charging", "temperature<70".
void tern_when_format(const struct tern_when *when, enum tern_condition condition, char *text,
                      size_t size);

// --- Readings

// Each probe reads below a root directory, "" on a real machine, and reports the value and its source. An unreadable or
// implausible value is unknown.

#define TERN_READING_TEXT 128
#define TERN_PROBE_PATH 512

struct tern_reading {
    bool known;
    double value; // in the unit of the probe; 0 while unknown
    char text
        [TERN_READING_TEXT]; // describes the value, or why it is unknown: a clause without a full stop
    char source[TERN_READING_TEXT]; // the file, folder or service that was read
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

// --- The port

// A reading stays valid this long.
#define TERN_CONDITIONS_FRESH_MS 1000

// Time between two queries of the bus when it did not reply, or when only check-ins need the reply: a query may take a second.
#define TERN_CONDITIONS_BUS_AGAIN_MS 30000

// The owner's setting for the link, which overrides NetworkManager.
enum tern_metered_word {
    TERN_METERED_NO = 0,
    TERN_METERED_YES,
    TERN_METERED_ASK, // query NetworkManager
};

// Reads "auto", or any form of yes or no that settings accept. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_metered_word_parse(const char *text,
                                                       enum tern_metered_word *word);

struct tern_finding {
    struct tern_reading reading;
    bool met;                    // valid for conditions in client.when
    char why[TERN_WHEN_WHY_MAX]; // a sentence, when a required condition is not met
};

// The caller zeroes it, then changes the defaults.
struct tern_posix_conditions {
    struct tern_when when;          // zero = always
    enum tern_metered_word metered; // zero = no
    const char *root;               // folder of proc, sys and run; NULL = "/"
    struct tern_clock clock;        // zero = tern_posix_clock()
    double (*cpu_seconds)(void);    // processor time of the caller's work; NULL = of this process

    // The results; the other members belong to the port.
    struct tern_finding findings[TERN_CONDITION_COUNT];
    bool has_readings;
    uint64_t readings_ms;
    struct tern_metered_probe bus;
    uint64_t next_bus_query_ms;
    bool process_load_known;
    double own_load; // what this process adds to the load average
    double process_cpu_seconds;
    uint64_t process_load_ms;
};

// *conditions is borrowed. A lost limit counts as met again only at a distance (5 degrees, a fifth of the load, 5 percent
// of the battery), so that work that heats the machine does not start and stop all the time.
struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions);

// Reads every probe into findings. Returns whether work is allowed; if not, *why is a sentence of one of the findings.
bool tern_posix_conditions_read(struct tern_posix_conditions *conditions, const char **why);

// The conditions that a check-in reports.
struct tern_conditions tern_posix_conditions_facts(const struct tern_posix_conditions *conditions);

// Closes the connection to the bus. *conditions may be used again.
void tern_posix_conditions_close(struct tern_posix_conditions *conditions);

#endif
