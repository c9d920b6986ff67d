#include "log/line.h"

static void put(struct line *line, char c)
{
    if (line->len < LINE_SIZE - 1) {
        line->text[line->len++] = c;
        line->text[line->len] = '\0';
    }
}

void line_text(struct line *line, const char *text)
{
    while (*text != '\0') {
        put(line, *text++);
    }
}

static void put_key(struct line *line, const char *key)
{
    put(line, ' ');
    line_text(line, key);
    put(line, '=');
}

static void put_number(struct line *line, uint64_t value)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    line_text(line, digits + at);
}

void line_number(struct line *line, const char *key, uint64_t value)
{
    put_key(line, key);
    put_number(line, value);
}

void line_fraction(struct line *line, const char *key, float value)
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

void line_quoted(struct line *line, const char *key, const char *text)
{
    put_key(line, key);
    put(line, '"');
    line_text(line, text);
    put(line, '"');
}

void line_hex(struct line *line, const char *key, const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    put_key(line, key);
    for (size_t i = 0; i < len; i++) {
        put(line, digits[bytes[i] >> 4]);
        put(line, digits[bytes[i] & 15]);
    }
}
