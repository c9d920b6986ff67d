// Reads the fixed words of spec strings. Pure; reentrant.
#ifndef TERN_PREFIX_H
#define TERN_PREFIX_H

#include <stdbool.h>

// Steps *text over `prefix`; false, and *text unchanged, when it does not begin so.
static inline bool tern_skip_prefix(const char **text, const char *prefix)
{
    const char *at = *text;
    for (; *prefix != '\0'; prefix++, at++) {
        if (*at != *prefix) {
            return false;
        }
    }
    *text = at;
    return true;
}

#endif
