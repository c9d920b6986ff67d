#include "hosted/log_json.h"

#include <stdbool.h>
#include <string.h>

// What is left of the line, and what the object has so far.
struct pair {
    const char *key;
    size_t key_len;
    const char *value; // within its quotes, with its escapes
    size_t value_len;
    bool quoted;
};

// --- Taking the line apart

static size_t length_of_quoted(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] != '"') {
        i += text[i] == '\\' && i + 1 < len ? 2 : 1;
    }
    return i;
}

static size_t length_until(const char *text, size_t len, char end)
{
    const char *found = memchr(text, end, len);
    return found != NULL ? (size_t)(found - text) : len;
}

// Takes the first pair off the text and returns how many bytes it had. A text that was cut may end
// within a key or a value.
static size_t take_pair(const char *text, size_t len, struct pair *pair)
{
    const size_t word = length_until(text, len, ' ');
    pair->key = text;
    pair->key_len = length_until(text, word, '=');
    size_t at = pair->key_len < len ? pair->key_len + 1 : len;
    pair->quoted = at < len && text[at] == '"' && pair->key_len < word;
    at += pair->quoted;
    pair->value = text + at;
    pair->value_len = pair->quoted ? length_of_quoted(text + at, len - at)
                                   : length_until(text + at, len - at, ' ');
    if (pair->key_len == word) { // no "=": the text was cut
        pair->value_len = 0;
        at = word;
    }
    at += pair->value_len + pair->quoted;
    return at + 1 < len ? at + 1 : len; // the space
}

// --- Numbers

// Whether the format prints the key by a conversion of numbers, or the line's head does.
static bool prints_number(const char *format, const struct pair *pair)
{
    if (pair->key_len == sizeof TERN_LOG_REQUEST - 1 &&
        memcmp(pair->key, TERN_LOG_REQUEST, pair->key_len) == 0) {
        return true;
    }
    for (const char *at = format; at != NULL && *at != '\0';) {
        if (strncmp(at, pair->key, pair->key_len) == 0 && at[pair->key_len] == '=') {
            at += pair->key_len + 1;
            return *at == '%' && strchr("diufgeFGE", at[strcspn(at, "diufgeFGEsxXcop")]) != NULL;
        }
        at = strchr(at, ' ');
        at += at != NULL;
    }
    return false;
}

static size_t digits(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] >= '0' && text[i] <= '9') {
        i++;
    }
    return i;
}

// As RFC 8259 has them: not "nan", not "inf", and none that was cut behind its point.
static bool is_number(const char *text, size_t len)
{
    size_t at = len > 0 && text[0] == '-';
    const size_t whole = digits(text + at, len - at);
    if (whole == 0 || (whole > 1 && text[at] == '0')) {
        return false;
    }
    at += whole;
    if (at < len && text[at] == '.') {
        const size_t fraction = digits(text + at + 1, len - at - 1);
        at = fraction > 0 ? at + 1 + fraction : len + 1;
    }
    if (at < len && text[at] == 'e') {
        at++;
        at += at < len && (text[at] == '-' || text[at] == '+');
        const size_t exponent = digits(text + at, len - at);
        at = exponent > 0 ? at + exponent : len + 1;
    }
    return at == len;
}

// --- Writing the object

static char *put(char *dst, const char *text, size_t len)
{
    memcpy(dst, text, len);
    return dst + len;
}

// The escapes of a quoted value are JSON's already; one that was cut off is left out.
static char *put_text(char *dst, const struct pair *pair)
{
    *dst++ = '"';
    for (size_t i = 0; i < pair->value_len; i++) {
        const char c = pair->value[i];
        if (pair->quoted && c == '\\') {
            if (i + 1 < pair->value_len) {
                dst = put(dst, pair->value + i, 2);
            }
            i++;
        } else {
            if (c == '\\' || c == '"') {
                *dst++ = '\\';
            }
            *dst++ = c;
        }
    }
    *dst++ = '"';
    return dst;
}

static char *put_pair(char *dst, const char *format, const struct pair *pair)
{
    *dst++ = '"';
    dst = put(dst, pair->key, pair->key_len);
    dst = put(dst, "\":", 2);
    const bool number =
        !pair->quoted && prints_number(format, pair) && is_number(pair->value, pair->value_len);
    return number ? put(dst, pair->value, pair->value_len) : put_text(dst, pair);
}

size_t tern_log_json(const char *format, const char *line, size_t len, char *dst)
{
    char *at = dst;
    *at++ = '{';
    for (size_t taken = 0; taken < len;) {
        struct pair pair;
        if (taken > 0) {
            *at++ = ',';
        }
        taken += take_pair(line + taken, len - taken, &pair);
        at = put_pair(at, format, &pair);
    }
    at = put(at, "}\n", 2);
    return (size_t)(at - dst);
}
