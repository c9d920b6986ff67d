// One line of text, put together piece by piece without printf(). What does not fit is left out.
// Pure; the caller owns the memory.
#ifndef TERN_FIRMWARE_LINE_H
#define TERN_FIRMWARE_LINE_H

#include <stddef.h>
#include <stdint.h>

#define TERN_LINE_SIZE 256 // with the terminating NUL

struct tern_line {
    char text[TERN_LINE_SIZE]; // NUL-terminated at any time
    size_t len;
};

// line->len is 0 at first, and text[0] NUL: struct tern_line line = {0}.
void tern_line_text(struct tern_line *line, const char *text);

// " KEY=VALUE", the value in decimal.
void tern_line_number(struct tern_line *line, const char *key, uint64_t value);

// " KEY=VALUE" with four decimals; a value that is not finite or too large is "-".
void tern_line_fraction(struct tern_line *line, const char *key, float value);

// " KEY=VALUE", the value quoted: it may hold spaces.
void tern_line_quoted(struct tern_line *line, const char *key, const char *text);

// " KEY=VALUE" in hex.
void tern_line_hex(struct tern_line *line, const char *key, const uint8_t *bytes, size_t len);

#endif
