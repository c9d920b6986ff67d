// Decides whether a Linux machine is in a state in which its owner lets it work: reads the probes, compares them with
// client.when, and implements the client's condition port. An unreadable condition counts as not met, since the bill, the
// battery and the machine are worth more than a round. Called by client/cli; one thread at a time.
#ifndef TERN_POSIX_CONDITIONS_H
#define TERN_POSIX_CONDITIONS_H

#include "ports.h"
#include "posix/probe.h"
#include "posix/when.h"

// A reading stays valid this long.
#define TERN_CONDITIONS_FRESH_MS 1000

// The bus is queried again after this when it did not answer, or when only check-ins report the answer: a query may take
// a second.
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
    bool looked;
    uint64_t looked_ms;
    struct tern_metered_probe bus;
    uint64_t bus_again_ms;
    bool own_known;
    double own_load; // what this process adds to the load average
    double own_cpu_seconds;
    uint64_t own_ms;
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
