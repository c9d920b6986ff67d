// Parses client.when, the conditions under which a client may train and send. Called by conditions.c and client/cli.
// Pure; reentrant.
#ifndef TERN_POSIX_WHEN_H
#define TERN_POSIX_WHEN_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>

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
    bool asked[TERN_CONDITION_COUNT];
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

#endif
