// Reads the fixed words of spec strings and names. Pure; reentrant.
#ifndef TERN_PREFIX_H
#define TERN_PREFIX_H

#include <stdbool.h>
#include <string.h>

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

static inline bool tern_ends_with(const char *text, const char *suffix)
{
    const size_t len = strlen(text);
    const size_t suffix_len = strlen(suffix);
    return len >= suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

#endif
