#include "hosted/csv_text.h"
#include "hosted/csv.h"
#include "util/math.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHORT 64 // bytes of a folded number or word
#define LONG 512 // bytes of a folded label

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || ((unsigned char)c & 0x80) != 0; // c comes from a folded text
}

static bool is_ascii(const char *text)
{
    while (((unsigned char)*text & 0x80) == 0 && *text != '\0') {
        text++;
    }
    return *text == '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Returns the address of the decimal number of *len bytes in text; NULL: the text is not a number.
static const char *find_number(const char *text, size_t *len)
{
    // strtof also reads hexadecimal numbers and "inf", which tables use as texts.
    text += strspn(text, " \t");
    *len = strspn(text, "0123456789+-.eE");
    return *len > 0 && text[*len + strspn(text + *len, " \t")] == '\0' ? text : NULL;
}

// Like find_number(), after folding where the text is not ASCII.
static const char *take_number(const char *text, char folded[SHORT], size_t *len)
{
    const char *number = find_number(text, len);
    if (number != NULL || is_ascii(text)) {
        return number;
    }
    return tern_csv_fold(text, folded, SHORT) < SHORT ? find_number(folded, len) : NULL;
}

bool tern_csv_number(const char *text, float *value)
{
    char folded[SHORT];
    char *end = NULL;
    size_t len;
    const char *number = take_number(text, folded, &len);
    if (number == NULL) {
        return false;
    }
    *value = strtof(number, &end);
    return end == number + len && tern_is_finite(*value);
}

bool tern_csv_double(const char *text, double *value)
{
    char folded[SHORT];
    size_t len;
    float rough;
    const char *number = take_number(text, folded, &len);
    const bool is_number = number != NULL && tern_csv_number(text, &rough);
    *value = is_number ? strtod(number, NULL) : 0;
    return is_number;
}

// Returns the folded text without one pair of brackets or quotes around it; NULL: it is longer than all listed words.
static const char *fold_word(const char *text, char folded[SHORT])
{
    static const char opening[] = "(<[{\"'";
    static const char closing[] = ")>]}\"'";
    if (tern_csv_fold(text, folded, SHORT) >= SHORT) {
        return NULL;
    }
    const size_t len = strlen(folded);
    const char *open = len > 2 ? strchr(opening, folded[0]) : NULL;
    if (open == NULL || folded[len - 1] != closing[open - opening]) {
        return folded;
    }
    folded[len - 1] = '\0';
    return folded + 1;
}

static bool is_listed(const char *text, const char *const *list, size_t count)
{
    char folded[SHORT];
    const char *word = fold_word(text, folded);
    for (size_t i = 0; word != NULL && i < count; i++) {
        if (strcmp(word, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool tern_csv_flag(const char *text, float *value)
{
    static const char *const words[][2] = {
        {"false", "true"}, {"no", "yes"}, {"off", "on"}, {"f", "t"}, {"n", "y"}};
    for (size_t i = 0; i < COUNT(words); i++) {
        const bool yes = strcasecmp(text, words[i][1]) == 0;
        if (yes || strcasecmp(text, words[i][0]) == 0) {
            *value = yes ? 1 : 0;
            return true;
        }
    }
    return false;
}

bool tern_csv_is_missing(const char *text)
{
    // The spellings of R, pandas, spreadsheets, SQL, MATLAB, C libraries and UCI's files.
    static const char *const spellings[] = {
        "",         "na",        "n/a",     "#n/a",     "#na",      "nan",     "-nan",    "+nan",
        "null",     "#null",     "#null!",  "\\n",      "nat",      "1.#qnan", "?",       "1.#ind",
        "nan(ind)", "-nan(ind)", "-1.#ind", "-1.#qnan", "#n/a n/a", "#value!", "#div/0!", "#ref!",
        "#num!",    "#name?",    "n a",     "n.a.",     "n.a",      "n. a.",   "n/a.",    "n\\a",
        "n_a",      "n-a",       "n / a",   "#n/a!",    "na."};
    // Skips the search for plain numbers, which most fields are.
    return !(is_digit(text[0]) && text[strspn(text, "0123456789.")] == '\0') &&
           is_listed(text, spellings, COUNT(spellings));
}

bool tern_csv_is_doubtful(const char *text)
{
    static const char *const words[] = {
        "none",       "missing",      "unknown",      "nil",           "undefined",
        "undef",      "tbd",          "tba",          "not available", "not applicable",
        "not known",  "n.d.",         "nd",           "n/d",           "no data",
        "nodata",     "no value",     "no reading",   "unspecified",   "unlabeled",
        "unlabelled", "not labeled",  "not labelled", "missing value", "k.a.",
        "k. a.",      "keine angabe", "unbekannt",    "inconnu",       "desconocido"};
    char folded[SHORT];
    const char *word = is_digit(text[0]) ? NULL : fold_word(text, folded);
    return word != NULL && word[0] != '\0' &&
           (word[strspn(word, "-._?*/\\~# ")] == '\0' || is_listed(text, words, COUNT(words)));
}

bool tern_csv_is_total(const char *text)
{
    static const char *const words[] = {"total",     "total:",      "totals",   "subtotal",
                                        "sub-total", "grand total", "sum total"};
    return is_listed(text, words, COUNT(words));
}

bool tern_csv_is_mark(double value)
{
    static const double marks[] = {-9999, -999, -99, 999, 9999, 99999, -99999, -999.9, 999.9};
    for (size_t i = 0; i < COUNT(marks); i++) {
        if (value == marks[i]) {
            return true;
        }
    }
    return false;
}

// Returns the length of the sign, digits, group marks and decimal mark at the start of text; 0: there is no digit.
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

// Returns the bytes of a currency sign at the start of text; 0: there is none.
static size_t currency_len(const char *text)
{
    static const char *const signs[] = {"$", "\u20ac", "\u00a3", "\u00a5", "\u20b9"};
    for (size_t i = 0; i < COUNT(signs); i++) {
        if (strncmp(text, signs[i], strlen(signs[i])) == 0) {
            return strlen(signs[i]);
        }
    }
    return 0;
}

// Whether the text starts with a date such as "31.12.2024".
static bool is_date(const char *text)
{
    size_t digits[3] = {0};
    for (size_t part = 0; part < 3; part++) {
        digits[part] = strspn(text, "0123456789");
        text += digits[part];
        if (part < 2 && *text++ != '.') {
            return false;
        }
    }
    return digits[0] - 1 < 2 && digits[1] - 1 < 2 && (digits[2] == 2 || digits[2] == 4);
}

bool tern_csv_is_like_number(const char *text)
{
    float value;
    char folded[SHORT];
    if (tern_csv_number(text, &value) || tern_csv_fold(text, folded, SHORT) >= SHORT ||
        is_date(folded)) {
        return false;
    }
    size_t mark = strspn(folded, "<>=~ ");
    mark += currency_len(folded + mark);
    mark += strspn(folded + mark, " ");
    const size_t len = amount_len(folded + mark);
    if (len == 0) {
        return false;
    }
    const char *unit = folded + mark + len;
    if (unit[0] == '\0') {
        return true;
    }
    // Accepts "12 ms" and "5%", rejects "3a" and "2024-01-05".
    const bool apart = is_blank(unit[0]);
    unit += strspn(unit, " \t");
    return unit[0] == '%' || unit[currency_len(unit)] == '\0' ||
           (apart && strlen(unit) <= 6 && strpbrk(unit, "0123456789-:") == NULL);
}

bool tern_csv_has_groups(const char *text)
{
    char folded[SHORT];
    if (tern_csv_fold(text, folded, SHORT) >= SHORT) {
        return false;
    }
    const char *rest = folded + (folded[0] == '+' || folded[0] == '-');
    size_t len = strspn(rest, "0123456789");
    uint32_t groups = 0;
    if (len == 0 || len > 3) {
        return false;
    }
    for (rest += len; rest[0] == ' ' || rest[0] == '\''; rest += 4) {
        if (strspn(rest + 1, "0123456789") != 3) {
            return false;
        }
        groups++;
    }
    return groups > 0 && (rest[0] == '\0' || rest[0] == '.' || rest[0] == ',');
}

bool tern_csv_has_decimal_comma(const char *text)
{
    const size_t sign = text[0] == '+' || text[0] == '-';
    const size_t whole = strspn(text + sign, "0123456789");
    const char *comma = text + sign + whole;
    return whole > 0 && comma[0] == ',' && is_digit(comma[1]) &&
           comma[1 + strspn(comma + 1, "0123456789")] == '\0';
}

// Skips blanks, underscores, and dashes between words.
static const char *skip_parts(const char *text, char last)
{
    for (;; text++) {
        const bool dash = text[0] == '-' && is_letter(last) && is_letter(text[1]);
        if (!dash && !is_blank(text[0]) && text[0] != '_') {
            return text;
        }
    }
}

static bool is_alike(const char *a, const char *b)
{
    for (char last = '\0';; last = *a++, b++) {
        a = skip_parts(a, last);
        b = skip_parts(b, last);
        if (*a != *b || *a == '\0') {
            return *a == *b;
        }
    }
}

bool tern_csv_is_variant(const char *a, const char *b)
{
    double x;
    double y;
    char folded[2][LONG];
    if (tern_csv_double(a, &x) && tern_csv_double(b, &y)) {
        return x == y;
    }
    return tern_csv_fold(a, folded[0], LONG) < LONG && tern_csv_fold(b, folded[1], LONG) < LONG &&
           is_alike(folded[0], folded[1]);
}

bool tern_csv_is_same(const char *a, const char *b)
{
    char folded[2][LONG];
    if (strcmp(a, b) == 0) {
        return true;
    }
    return tern_csv_fold(a, folded[0], LONG) < LONG && tern_csv_fold(b, folded[1], LONG) < LONG &&
           strcmp(folded[0], folded[1]) == 0;
}
