// Whether a Linux machine is in the state in which its owner lets it work: reads the probes, holds
// them against what is asked, and is the client's condition port. What cannot be read counts as not
// met: the bill, the battery and the machine are worth more than a round; an owner who knows better
// leaves the condition out, or says whether the link is metered. One thread at a time.
#ifndef TERN_POSIX_CONDITIONS_H
#define TERN_POSIX_CONDITIONS_H

#include "ports.h"
#include "posix/probe.h"
#include "posix/when.h"

// What was read stays true for so long.
#define TERN_CONDITIONS_FRESH_MS 1000

// A bus that did not answer, or whose answer only check-ins tell, is asked again after this: the
// question may take a second.
#define TERN_CONDITIONS_BUS_AGAIN_MS 30000

// The owner's word about the link. It is stronger than what NetworkManager says.
enum tern_metered_word {
    TERN_METERED_NO = 0,
    TERN_METERED_YES,
    TERN_METERED_ASK, // there is none: ask NetworkManager
};

// Reads "auto", or a yes or no in any form that settings know. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_metered_word_parse(const char *text,
                                                       enum tern_metered_word *word);

struct tern_finding {
    struct tern_reading reading;
    bool met;                    // only of those asked for
    char why[TERN_WHEN_WHY_MAX]; // asked for and not met: a sentence
};

// Zeroed by the caller, who then sets what is not to be as said here.
struct tern_posix_conditions {
    struct tern_when when;          // zero = always
    enum tern_metered_word metered; // zero = no
    const char *root;               // where /proc, /sys and /run are looked for; NULL = "/"
    struct tern_clock clock;        // zero = tern_posix_clock()
    double (*cpu_seconds)(void);    // processor time of the caller's work; NULL = of this process

    // What was found. The rest is the port's own.
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

// *conditions is borrowed. A limit that was passed is met again only at some distance from it, so
// that work that heats the machine does not start and stop all the time: 5 degrees, a fifth of the
// load, 5 percent of the battery.
struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions);

// Reads every probe now, whether asked for or not, into findings. Returns whether work is allowed,
// and else in *why a sentence of one of the findings.
bool tern_posix_conditions_look(struct tern_posix_conditions *conditions, const char **why);

// What a check-in says about them.
struct tern_conditions tern_posix_conditions_facts(const struct tern_posix_conditions *conditions);

// Closes what the probes hold open. It may be used again.
void tern_posix_conditions_close(struct tern_posix_conditions *conditions);

#endif
