// Implements the condition port on Linux: parses the setting client.when (when.c), reads power, load, temperature and whether
// the link is metered, and decides whether the client may work. A condition that cannot be read counts as not met, because a
// wrong decision could cost money or drain a battery. Called by client/cli and lab/fleet; one thread at a time. Parsing is
// pure.
#ifndef TERN_POSIX_CONDITIONS_H
#define TERN_POSIX_CONDITIONS_H

#include "ports.h"
#include "result.h"

// --- client.when

#define TERN_WHEN_WHY_MAX 256

// The condition `idle` means: other processes cause a load per processor below this limit.
#define TERN_WHEN_IDLE_LOAD 0.3

enum tern_condition {
    TERN_CONDITION_UNMETERED = 0, // the link is not paid by the byte
    TERN_CONDITION_CHARGING,      // the machine has external power
    TERN_CONDITION_LOAD,          // the load per processor is below a limit
    TERN_CONDITION_TEMPERATURE,   // the temperature in degrees Celsius is below a limit
    TERN_CONDITION_BATTERY,       // the charge of the battery in percent is above a limit
    TERN_CONDITION_COUNT
};

// The parsed setting client.when: the required conditions.
struct tern_when {
    bool required[TERN_CONDITION_COUNT];
    double limit[TERN_CONDITION_COUNT]; // for conditions with a limit
};

// Parses a list such as "unmetered, charging, idle, load<1.5, temperature<70, battery>40", with any of these conditions in any
// order; an empty text requires none.
// TERN_ERR_CONFIG  why describes the error and lists the known conditions; *when is unchanged
TERN_MUST_USE enum tern_result tern_when_parse(const char *text, struct tern_when *when,
                                               char why[TERN_WHEN_WHY_MAX]);

// Returns the condition's name, e.g. "unmetered": a static string.
const char *tern_condition_name(enum tern_condition condition);

// Returns '<' or '>' for a condition with a limit, else '\0'.
char tern_condition_sign(enum tern_condition condition);

// Writes the condition with its limit, e.g. "charging" or "temperature<70".
void tern_when_format(const struct tern_when *when, enum tern_condition condition, char *text,
                      size_t size);

// --- Readings

// Each probe reads files below the folder `root`, which is "" except in tests. A reading has a value and its source. A value
// that cannot be read, or is implausible, is unknown.

#define TERN_READING_TEXT 128
#define TERN_PROBE_PATH 512

struct tern_reading {
    bool known;
    double value; // in the unit of the probe; 0: unknown
    // describes the value, or why it is unknown: a clause without a full stop
    char text[TERN_READING_TEXT];
    char source[TERN_READING_TEXT]; // the file, folder or service that was read
};

// Set a reading to a value with a description, or to unknown with a reason. Both texts are formatted like printf().
void tern_reading_known(struct tern_reading *reading, double value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tern_reading_unknown(struct tern_reading *reading, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- Probes

// Reads ROOT/sys/class/power_supply, without the batteries of peripherals. charging: 1 if the machine has external power and no
// battery discharges, 0 if it runs on battery. battery: charge of the emptiest battery in percent.
void tern_probe_power(const char *root, struct tern_reading *charging,
                      struct tern_reading *battery);

// Reads the load average over one minute in ROOT/proc/loadavg, subtracts the load of the caller's work, and divides by the
// number of processors in ROOT/sys/devices/system/cpu/online.
void tern_probe_load(const char *root, double process_load, struct tern_reading *load);

// Reads the zones of ROOT/sys/class/thermal; the value is the highest plausible temperature in degrees Celsius.
void tern_probe_temperature(const char *root, struct tern_reading *temperature);

// --- Whether the link is metered (NetworkManager, D-Bus)

// A connection to D-Bus that stays open between calls; all zero before the first call.
struct tern_metered_probe {
    void *connection;
};

// Reads NetworkManager's property Metered over the bus at DBUS_SYSTEM_BUS_ADDRESS or ROOT/run/dbus/system_bus_socket. The value
// is 1 for "yes" and "guess-yes", 0 for "no" and "guess-no". It is unknown without a bus, without NetworkManager, without an
// answer within a second, and in builds without D-Bus.
void tern_probe_metered(struct tern_metered_probe *probe, const char *root,
                        struct tern_reading *metered);

// Closes the connection if one is open. The next query opens another.
void tern_probe_metered_close(struct tern_metered_probe *probe);

// --- The port

// Before a request or a local step, a probe is read again when its last reading is older than this. During transfers every check
// reads it.
#define TERN_CONDITIONS_FRESH_MS 1000

// Time between two queries of the bus if it did not reply, or if no condition needs the reply. A query may take a second.
#define TERN_CONDITIONS_BUS_AGAIN_MS 30000

// The setting budget.metered: what the owner says about the link, or that NetworkManager decides.
enum tern_metered_word {
    TERN_METERED_NO = 0,
    TERN_METERED_YES,
    TERN_METERED_ASK, // query NetworkManager
};

// Parses "auto", or any form of yes and no that settings accept. TERN_ERR_CONFIG: the text is none of these.
TERN_MUST_USE enum tern_result tern_metered_word_parse(const char *text,
                                                       enum tern_metered_word *word);

// A condition's reading, and whether the condition is met.
struct tern_finding {
    struct tern_reading reading;
    bool met;                    // valid if client.when requires the condition
    char why[TERN_WHEN_WHY_MAX]; // the reason, if the condition is required and not met
};

// The conditions of this machine. The caller sets it to zero, and then sets the first fields as needed.
struct tern_posix_conditions {
    struct tern_when when;          // required conditions; zero: none
    enum tern_metered_word metered; // zero: the link is not metered
    const char *root;               // folder that contains proc, sys and run; NULL: "/"
    struct tern_clock clock;        // zero: tern_posix_clock()
    double (*cpu_seconds)(
        void); // returns the processor time of the caller's work; NULL: that of this process

    // The results. All fields after this one are private.
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

// Returns the condition port; *conditions must outlive it. After a limit was exceeded, the condition counts as met only when
// the value is well within the limit again (by 5 degrees, a fifth of the load, 5 percent of the battery). Otherwise work that
// heats the machine would start and stop all the time.
struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions);

// Reads all probes into conditions->findings. Returns whether the client may work; if not, points *why to the reason of a
// condition that is not met.
bool tern_posix_conditions_read(struct tern_posix_conditions *conditions, const char **why);

// Returns the conditions that a check-in reports.
struct tern_conditions tern_posix_conditions_facts(const struct tern_posix_conditions *conditions);

// Closes the connection to the bus. *conditions may be used again.
void tern_posix_conditions_close(struct tern_posix_conditions *conditions);

#endif
