// What a verb that looks after things has found, a line for each: whether that is good, and what to do
// where it is not. For people as text, while it looks; for scripts as JSON, at the end. From one thread.
#ifndef TERN_FINDINGS_H
#define TERN_FINDINGS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

enum tern_health {
    TERN_HEALTH_GOOD,
    TERN_HEALTH_WARNING, // it works, and will not for long, not for everybody, or not as it is meant
    TERN_HEALTH_PROBLEM, // it does not work
    TERN_HEALTH_COUNT,
};

struct tern_findings {
    cJSON *list; // of objects with health, area, finding and advice; NULL = they are printed
    uint32_t count[TERN_HEALTH_COUNT];
};

// area: a word. advice: what to do; NULL where nothing is, or where the sentence says it. What cannot be
// shown of names and files becomes a question mark.
void tern_findings_say(struct tern_findings *findings, enum tern_health health, const char *area,
                       const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
