// Helpers for text that people write: UTF-8, suggestions for misspelt names, prefixes. Pure;
// reentrant.
#ifndef TERN_UTIL_TEXT_H
#define TERN_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// --- UTF-8

// Reads one code point of text[0..len), len >= 1. Returns its length; 0: it is malformed.
size_t tern_utf8_read(const char *text, size_t len, uint32_t *code);

// Returns true if a code point is invisible: zero-width and bidirectional marks, tags, fillers,
// variation selectors.
bool tern_utf8_is_hidden(uint32_t code);

// Returns true if text[0..len) is well-formed UTF-8 (RFC 3629: no over-long forms, no surrogates)
// without control characters (U+0000 to U+001F, U+007F to U+009F).
bool tern_utf8_is_text(const char *text, size_t len);

// Returns the index of the first byte of text[0..len) that is not well-formed UTF-8; len: there is none. Control
// characters are well-formed.
size_t tern_utf8_malformed(const char *text, size_t len);

// Replaces malformed bytes, control characters and invisible code points of text[0..len) by '?', one for each byte. For
// terminals and logs.
void tern_utf8_show(char *text, size_t len);

// --- Near names

// Returns the Levenshtein distance; SIZE_MAX where b has 64 bytes or more.
size_t tern_edit_distance(const char *a, const char *b);

// Returns the edit distance at which a name is too different from `written` to be suggested.
size_t tern_near_limit(const char *written);

// Finds the existing name that a misspelt one is nearest to. Start with .limit = tern_near_limit(written) and offer every
// existing name; best is NULL where none is near.
struct tern_near_name {
    const char *written;
    const char *best;
    size_t limit;
};
void tern_near_offer(struct tern_near_name *search, const char *name);

// --- Prefixes and suffixes

// Advances *text behind `prefix`; false: it starts differently, and *text is unchanged.
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
