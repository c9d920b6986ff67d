#include "hosted/csv_text.h"
#include "util/math.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool tern_csv_number(const char *text, float *value)
{
    // strtof also takes hexadecimal numbers and "inf", which no table means.
    text += strspn(text, " \t");
    const size_t len = strspn(text, "0123456789+-.eE");
    if (len == 0 || text[len + strspn(text + len, " \t")] != '\0') {
        return false;
    }
    char *end = NULL;
    *value = strtof(text, &end);
    return end == text + len && tern_is_finite(*value);
}

static bool is_listed(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(text, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool tern_csv_is_missing(const char *text)
{
    // As R, pandas, spreadsheets, SQL, MATLAB, C libraries and UCI's files write them.
    static const char *const spellings[] = {
        "",         "na",      "n/a",     "#n/a",   "#na",       "<na>",    "nan",
        "-nan",     "+nan",    "null",    "#null",  "#null!",    "<null>",  "\\n",
        "nat",      "1.#qnan", "?",       "1.#ind", "-nan(ind)", "-1.#ind", "-1.#qnan",
        "#n/a n/a", "#value!", "#div/0!", "#ref!",  "#num!"};
    return is_listed(text + strspn(text, " \t"), spellings, COUNT(spellings));
}

bool tern_csv_is_doubtful(const char *text)
{
    static const char *const words[] = {"none",    "-",         "--",  ".",    "..",
                                        "missing", "unknown",   "nil", "n.a.", "undefined",
                                        "tbd",     "undefined", "---", "??",   "not available"};
    return is_listed(text, words, COUNT(words));
}

// Digits and what groups or parts them, from the sign on.
static size_t amount_len(const char *text)
{
    size_t len = text[0] == '+' || text[0] == '-';
    if (!is_digit(text[len]) &&
        !((text[len] == '.' || text[len] == ',') && is_digit(text[len + 1]))) {
        return 0;
    }
    while (is_digit(text[len]) ||
           (text[len] != '\0' && strchr("., '", text[len]) != NULL && is_digit(text[len + 1]))) {
        len++;
    }
    return len;
}

bool tern_csv_is_like_number(const char *text)
{
    float value;
    if (tern_csv_number(text, &value)) {
        return false;
    }
    const size_t mark = strspn(text, "<>=~ ");
    const size_t len = amount_len(text + mark);
    if (len == 0) {
        return false;
    }
    const char *unit = text + mark + len;
    if (unit[0] == '\0') {
        return true;
    }
    // "12 ms" and "5%", but neither "3a" nor "2024-01-05".
    const bool apart = is_blank(unit[0]);
    unit += strspn(unit, " \t");
    return unit[0] == '%' || (apart && strlen(unit) <= 6 && strpbrk(unit, "0123456789-:") == NULL);
}

bool tern_csv_has_decimal_comma(const char *text)
{
    const size_t sign = text[0] == '+' || text[0] == '-';
    const size_t whole = strspn(text + sign, "0123456789");
    const char *comma = text + sign + whole;
    return whole > 0 && comma[0] == ',' && is_digit(comma[1]) &&
           comma[1 + strspn(comma + 1, "0123456789")] == '\0';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool tern_csv_is_variant(const char *a, const char *b)
{
    float x;
    float y;
    if (tern_csv_number(a, &x) && tern_csv_number(b, &y)) {
        return strtod(a, NULL) == strtod(b, NULL);
    }
    for (;;) {
        a += strspn(a, " \t");
        b += strspn(b, " \t");
        if (lower(*a) != lower(*b)) {
            return false;
        }
        if (*a == '\0') {
            return true;
        }
        a++;
        b++;
    }
}
