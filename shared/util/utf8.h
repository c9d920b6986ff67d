// Text that people type and read: names, specs, sentences. Used by the wire messages and by the
// settings of programs. Pure; reentrant.
#ifndef TERN_UTF8_H
#define TERN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads one code point of text[0..len), len >= 1. Returns its length; 0 when it is malformed.
size_t tern_utf8_read(const char *text, size_t len, uint32_t *code);

// Whether a code point shows as nothing: zero-width and bidirectional marks, tags, fillers, variation selectors.
bool tern_utf8_is_hidden(uint32_t code);

// Whether text[0..len) is well-formed UTF-8 (RFC 3629: no over-long forms, no surrogates) without
// control characters (U+0000 to U+001F, U+007F to U+009F).
bool tern_utf8_is_text(const char *text, size_t len);

// Returns the place of the first byte of text[0..len) that is not well-formed UTF-8; len: there is none.
// Control characters are well-formed.
size_t tern_utf8_malformed(const char *text, size_t len);

// Puts a ? in the place of each byte of text[0..len) that is not of such text, and of what people
// cannot see or what turns other text about: zero-width and bidirectional marks, tags, byte order
// marks, variation selectors. For terminals and logs.
void tern_utf8_show(char *text, size_t len);

#endif
