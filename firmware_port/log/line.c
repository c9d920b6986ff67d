#include "log/line.h"

static void put(struct tern_line *line, char c)
{
    if (line->len < TERN_LINE_SIZE - 1) {
        line->text[line->len++] = c;
        line->text[line->len] = '\0';
    }
}

void tern_line_text(struct tern_line *line, const char *text)
{
    while (*text != '\0') {
        put(line, *text++);
    }
}

static void put_key(struct tern_line *line, const char *key)
{
    put(line, ' ');
    tern_line_text(line, key);
    put(line, '=');
}

static void put_number(struct tern_line *line, uint64_t value)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    tern_line_text(line, digits + at);
}

void tern_line_number(struct tern_line *line, const char *key, uint64_t value)
{
    put_key(line, key);
    put_number(line, value);
}

void tern_line_fraction(struct tern_line *line, const char *key, float value)
{
    put_key(line, key);
    if (!(value > -100000.0f && value < 100000.0f)) {
        put(line, '-');
        return;
    }
    if (value < 0.0f) {
        put(line, '-');
        value = -value;
    }
    const uint32_t parts = (uint32_t)(value * 10000.0f + 0.5f);
    put_number(line, parts / 10000);
    put(line, '.');
    for (uint32_t unit = 1000; unit > 0; unit /= 10) {
        put(line, (char)('0' + parts / unit % 10));
    }
}

void tern_line_quoted(struct tern_line *line, const char *key, const char *text)
{
    put_key(line, key);
    put(line, '"');
    tern_line_text(line, text);
    put(line, '"');
}

void tern_line_hex(struct tern_line *line, const char *key, const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    put_key(line, key);
    for (size_t i = 0; i < len; i++) {
        put(line, digits[bytes[i] >> 4]);
        put(line, digits[bytes[i] & 15]);
    }
}
