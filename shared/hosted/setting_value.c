#include "hosted/setting_value.h"
#include "util/near_name.h"
#include "util/utf8.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

// Ki is 1024 and K is 1000. A size may end in B as well: KiB, KB. The longest unit that divides a
// value comes out when it is printed, so units stand in falling order.
static const struct unit count_units[] = {
    {"Ti", 1ull << 40}, {"T", 1000000000000ull},
    {"Gi", 1ull << 30}, {"G", 1000000000ull},
    {"Mi", 1ull << 20}, {"M", 1000000ull},
    {"Ki", 1ull << 10}, {"K", 1000ull},
    {"k", 1000ull},     {"", 1ull},
    {NULL, 0},
};

static const struct unit time_units[] = {
    {"d", 86400000ull}, {"h", 3600000ull}, {"m", 60000ull}, {"s", 1000ull},
    {"ms", 1ull},       {"", 1ull},        {NULL, 0},
};

static const struct unit *units_of(enum tern_setting_type type)
{
    return type == TERN_SETTING_MS || type == TERN_SETTING_AUTO_MS ? time_units : count_units;
}

static enum tern_result problem_is(char problem[TERN_SETTING_PROBLEM_MAX], const char *sentence)
{
    snprintf(problem, TERN_SETTING_PROBLEM_MAX, "%s", sentence);
    return TERN_ERR_CONFIG;
}

// The unit that `text` names, or NULL.
static const struct unit *find_unit(const char *text, enum tern_setting_type type)
{
    size_t len = strlen(text);
    if (type == TERN_SETTING_BYTES && len > 0 && text[len - 1] == 'B') {
        len--;
    }
    for (const struct unit *unit = units_of(type); unit->name != NULL; unit++) {
        if (strlen(unit->name) == len && memcmp(unit->name, text, len) == 0) {
            return unit;
        }
    }
    return NULL;
}

static void explain_unit(const char *text, char problem[TERN_SETTING_PROBLEM_MAX])
{
    if (strpbrk(text, ";#") != NULL) {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX,
                 "is followed by a comment, which needs a line of its own");
    } else if (text[0] == '.' || text[0] == ',') {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is not a whole number");
    } else {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX, "has the unknown unit '%.20s'", text);
    }
}

// Reads decimal digits and one unit, with a space between or none. False on anything else or above
// 64 bits.
static bool parse_count(const char *text, enum tern_setting_type type, uint64_t *value,
                        char problem[TERN_SETTING_PROBLEM_MAX])
{
    uint64_t number = 0;
    const char *at = text;
    if (text[0] == '-' && text[1] >= '0' && text[1] <= '9') {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is below the minimum");
        return false;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number)) {
            snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is too large");
            return false;
        }
    }
    if (at == text) {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is not a number");
        return false;
    }
    at += *at == ' ' && at[1] != '\0';
    const struct unit *unit = find_unit(at, type);
    if (unit == NULL) {
        explain_unit(at, problem);
        return false;
    }
    if (__builtin_mul_overflow(number, unit->factor, value)) {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is too large");
        return false;
    }
    return true;
}

static enum tern_result check_range(const struct tern_setting *setting, double value,
                                    char problem[TERN_SETTING_PROBLEM_MAX])
{
    if (value < setting->min) {
        return problem_is(problem, "is below the minimum");
    }
    if (value > setting->max) {
        return problem_is(problem, "is above the maximum");
    }
    return TERN_OK;
}

static enum tern_result parse_whole(const struct tern_setting *setting, const char *text,
                                    void *field, char problem[TERN_SETTING_PROBLEM_MAX])
{
    uint64_t value;
    if (!parse_count(text, setting->type, &value, problem)) {
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(check_range(setting, (double)value, problem));
    if (setting->type != TERN_SETTING_U32) {
        memcpy(field, &value, sizeof(value));
        return TERN_OK;
    }
    if (value > UINT32_MAX) {
        return problem_is(problem, "is above the maximum");
    }
    uint32_t narrow = (uint32_t)value;
    memcpy(field, &narrow, sizeof(narrow));
    return TERN_OK;
}

static enum tern_result parse_auto(const struct tern_setting *setting, const char *text,
                                   void *field, char problem[TERN_SETTING_PROBLEM_MAX])
{
    const uint64_t automatic = TERN_AUTO_MS;
    if (strcmp(text, "auto") != 0) {
        return parse_whole(setting, text, field, problem);
    }
    memcpy(field, &automatic, sizeof automatic);
    return TERN_OK;
}

static enum tern_result parse_real(const struct tern_setting *setting, const char *text,
                                   void *field, char problem[TERN_SETTING_PROBLEM_MAX])
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(value)) {
        return problem_is(problem, "is not a finite number");
    }
    TERN_TRY(check_range(setting, value, problem));
    memcpy(field, &value, sizeof(value));
    return TERN_OK;
}

static enum tern_result parse_bool(const char *text, void *field,
                                   char problem[TERN_SETTING_PROBLEM_MAX])
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            bool value = i % 2 == 1;
            memcpy(field, &value, sizeof(value));
            return TERN_OK;
        }
    }
    return problem_is(problem, "is neither yes nor no");
}

static enum tern_result parse_text(const struct tern_setting *setting, const char *text,
                                   void *field, char problem[TERN_SETTING_PROBLEM_MAX])
{
    size_t len = strlen(text);
    if ((double)len < setting->min) {
        return problem_is(problem, len == 0 ? "is empty" : "is too short");
    }
    if ((double)len > setting->max || len >= setting->size) {
        return problem_is(problem, "is too long");
    }
    if (!tern_utf8_is_text(text, len)) {
        return problem_is(problem, "is not UTF-8 text, or holds a control character");
    }
    if (len > 0 && (text[0] == ' ' || text[len - 1] == ' ')) {
        return problem_is(problem, "begins or ends with a space");
    }
    memset(field, 0, setting->size);
    memcpy(field, text, len);
    return TERN_OK;
}

// --- Words

bool tern_setting_word(const char *words, uint32_t i, char word[TERN_SETTING_WORD_MAX])
{
    for (; i > 0 && *words != '\0'; i--) {
        words += strcspn(words, "|");
        words += strspn(words, "| ");
    }
    const size_t len = strcspn(words, " |");
    snprintf(word, TERN_SETTING_WORD_MAX, "%.*s", (int)len, words);
    return len > 0;
}

static enum tern_result parse_word(const char *words, const char *text, void *field,
                                   char problem[TERN_SETTING_PROBLEM_MAX])
{
    char word[TERN_SETTING_WORD_MAX];
    struct tern_near_name near = {.written = text, .limit = tern_near_limit(text)};
    char nearest[TERN_SETTING_WORD_MAX] = "";
    for (uint32_t i = 0; tern_setting_word(words, i, word); i++) {
        if (strcmp(word, text) == 0) {
            memset(field, 0, TERN_SETTING_WORD_MAX);
            memcpy(field, word, strlen(word));
            return TERN_OK;
        }
        tern_near_offer(&near, word);
        if (near.best != NULL) {
            memcpy(nearest, near.best, sizeof nearest);
            near.best = NULL;
        }
    }
    snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is not known%s%s%s",
             nearest[0] != '\0' ? "; did you mean '" : "", nearest, nearest[0] != '\0' ? "'?" : "");
    return TERN_ERR_CONFIG;
}

static enum tern_result parse_spec(const struct tern_setting *setting, const char *text,
                                   void *field, char problem[TERN_SETTING_PROBLEM_MAX])
{
    memcpy(problem, ": ", 3);
    return setting->spec->check(text, problem + 2) == TERN_OK
               ? parse_text(setting, text, field, problem)
               : TERN_ERR_CONFIG;
}

enum tern_result tern_setting_parse(const struct tern_setting *setting, const char *text,
                                    void *field, char problem[TERN_SETTING_PROBLEM_MAX])
{
    switch (setting->type) {
    case TERN_SETTING_TEXT:
        return parse_text(setting, text, field, problem);
    case TERN_SETTING_REAL:
        return parse_real(setting, text, field, problem);
    case TERN_SETTING_BOOL:
        return parse_bool(text, field, problem);
    case TERN_SETTING_AUTO_MS:
        return parse_auto(setting, text, field, problem);
    case TERN_SETTING_ENUM:
        return parse_word(setting->words, text, field, problem);
    case TERN_SETTING_SPEC:
        return parse_spec(setting, text, field, problem);
    case TERN_SETTING_U32:
    case TERN_SETTING_U64:
    case TERN_SETTING_MS:
    case TERN_SETTING_BYTES:
        break;
    }
    return parse_whole(setting, text, field, problem);
}

static void format_count(enum tern_setting_type type, uint64_t value, char *text, size_t size)
{
    const struct unit *unit = units_of(type);
    bool plain = value == 0 || type == TERN_SETTING_U32 || type == TERN_SETTING_U64;
    while (unit->factor != 1 && (plain || value % unit->factor != 0)) {
        unit++;
    }
    const bool bytes = type == TERN_SETTING_BYTES && unit->factor != 1;
    snprintf(text, size, "%llu%s%s", (unsigned long long)(value / unit->factor), unit->name,
             bytes ? "B" : "");
}

// A short form that reads back as the same double.
static void format_real(double value, char *text, size_t size)
{
    if (fabs(value) < 1e15 && value == (double)(long long)value) {
        snprintf(text, size, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return;
        }
    }
}

static void format_limit(const struct tern_setting *setting, double limit, char *text, size_t size)
{
    if (setting->type == TERN_SETTING_REAL) {
        format_real(limit, text, size);
    } else {
        uint64_t whole = limit >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)limit;
        format_count(setting->type, whole, text, size);
    }
}

// The names alone: the keys stand in the documentation of the list (settings_print.c).
static void allow_specs(const struct tern_setting_spec *spec,
                        char allowed[TERN_SETTING_ALLOWED_MAX])
{
    struct tern_spec_entry entry;
    size_t len = (size_t)snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "%s",
                                  spec->besides != NULL ? spec->besides : "");
    for (size_t i = 0; spec->list->at(i, &entry) && len < TERN_SETTING_ALLOWED_MAX; i++) {
        len += (size_t)snprintf(allowed + len, TERN_SETTING_ALLOWED_MAX - len, "%s%s",
                                len > 0 ? " | " : "", entry.name);
    }
}

void tern_setting_allowed(const struct tern_setting *setting,
                          char allowed[TERN_SETTING_ALLOWED_MAX])
{
    static const char *const kinds[] = {
        [TERN_SETTING_U32] = "a whole number",
        [TERN_SETTING_U64] = "a whole number",
        [TERN_SETTING_REAL] = "a number",
        [TERN_SETTING_MS] = "a duration (ms, s, m, h, d)",
        [TERN_SETTING_AUTO_MS] = "auto, or a duration (ms, s, m, h, d)",
        [TERN_SETTING_BYTES] = "a size (KiB, MiB, GiB by 1024; KB, MB, GB by 1000)",
    };
    if (setting->type == TERN_SETTING_SPEC) {
        allow_specs(setting->spec, allowed);
        return;
    }
    if (setting->type == TERN_SETTING_ENUM) {
        snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "%s", setting->words);
        return;
    }
    if (setting->type == TERN_SETTING_BOOL) {
        snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "yes or no");
        return;
    }
    if (setting->type == TERN_SETTING_TEXT) {
        snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "text of %.0f to %.0f bytes", setting->min,
                 setting->max);
        return;
    }
    char low[48];
    char high[48];
    format_limit(setting, setting->min, low, sizeof(low));
    format_limit(setting, setting->max, high, sizeof(high));
    snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "%s from %s to %s", kinds[setting->type], low,
             high);
}

// --- Values that were read

void tern_setting_format(const struct tern_setting *setting, const void *values,
                         char text[TERN_SETTING_TEXT_MAX])
{
    const void *field = (const char *)values + setting->offset;
    switch (setting->type) {
    case TERN_SETTING_TEXT:
    case TERN_SETTING_SPEC:
    case TERN_SETTING_ENUM:
        snprintf(text, TERN_SETTING_TEXT_MAX, "%s", (const char *)field);
        return;
    case TERN_SETTING_BOOL:
        snprintf(text, TERN_SETTING_TEXT_MAX, "%s", *(const bool *)field ? "yes" : "no");
        return;
    case TERN_SETTING_REAL:
        format_real(*(const double *)field, text, TERN_SETTING_TEXT_MAX);
        return;
    case TERN_SETTING_U32:
        format_count(setting->type, *(const uint32_t *)field, text, TERN_SETTING_TEXT_MAX);
        return;
    case TERN_SETTING_AUTO_MS:
        if (*(const uint64_t *)field == TERN_AUTO_MS) {
            snprintf(text, TERN_SETTING_TEXT_MAX, "auto");
            return;
        }
        break;
    case TERN_SETTING_U64:
    case TERN_SETTING_MS:
    case TERN_SETTING_BYTES:
        break;
    }
    format_count(setting->type, *(const uint64_t *)field, text, TERN_SETTING_TEXT_MAX);
}

static bool is_text(enum tern_setting_type type)
{
    return type == TERN_SETTING_TEXT || type == TERN_SETTING_SPEC || type == TERN_SETTING_ENUM;
}

// --- Comparing

// What a spec string is parsed into: parameters' fields lie at offsets within one of the structs of the lists.
union spec_values {
    double aligned;
    char bytes[256];
};

struct parsed_spec {
    size_t name; // index in the list
    struct tern_spec_entry entry;
    union spec_values values;
};

static bool fits(const struct tern_spec_parameter *parameter)
{
    return parameter->offset + sizeof(double) <= sizeof(union spec_values);
}

static bool parse_for_comparing(const struct tern_setting_spec *spec, const char *text,
                                struct parsed_spec *parsed)
{
    struct tern_spec_refusal refusal;
    struct tern_spec_entry entry;
    char continued[TERN_SETTING_TEXT_MAX];
    if (spec->number != NULL && text[0] >= '0' && text[0] <= '9') {
        snprintf(continued, sizeof continued, "%s%s", spec->number, text);
        text = continued;
    }
    for (size_t i = 0; spec->list->at(i, &entry); i++) {
        for (const struct tern_spec_parameter *p = entry.parameters; p->key != NULL; p++) {
            if (!fits(p)) {
                return false;
            }
        }
    }
    *parsed = (struct parsed_spec){.name = 0};
    return tern_spec_parse(spec->list, text, &parsed->values, &parsed->name, &refusal) == TERN_OK &&
           spec->list->at(parsed->name, &parsed->entry);
}

static bool same_field(const struct tern_spec_parameter *parameter, const union spec_values *a,
                       const union spec_values *b)
{
    const size_t size = parameter->kind == TERN_SPEC_REAL ? sizeof(double) : sizeof(uint32_t);
    return memcmp(a->bytes + parameter->offset, b->bytes + parameter->offset, size) == 0;
}

static bool same_spec(const struct tern_setting_spec *spec, const char *a, const char *b)
{
    struct parsed_spec x;
    struct parsed_spec y;
    if (!parse_for_comparing(spec, a, &x) || !parse_for_comparing(spec, b, &y) ||
        x.name != y.name) {
        return false;
    }
    for (size_t i = 0; x.entry.parameters[i].key != NULL; i++) {
        if ((x.entry.used >> i & 1) != 0 &&
            !same_field(&x.entry.parameters[i], &x.values, &y.values)) {
            return false;
        }
    }
    return true;
}

// Copies the part of a joined spec string ("adaptive+deadline") at *rest and moves *rest behind its "+"; false at the end.
static bool next_part(const char **rest, char part[TERN_SETTING_TEXT_MAX])
{
    const size_t len = strcspn(*rest, "+");
    if (len == 0) {
        return false;
    }
    snprintf(part, TERN_SETTING_TEXT_MAX, "%.*s", (int)len, *rest);
    *rest += len + ((*rest)[len] == '+');
    return true;
}

// Returns true if each part of `a` is among those of `b`. A name stands in one part at most.
static bool has_parts(const struct tern_setting_spec *spec, const char *a, const char *b)
{
    char part[TERN_SETTING_TEXT_MAX];
    char other[TERN_SETTING_TEXT_MAX];
    while (next_part(&a, part)) {
        bool found = false;
        for (const char *rest = b; !found && next_part(&rest, other);) {
            found = same_spec(spec, part, other);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

bool tern_setting_text_equal(const struct tern_setting *setting, const char *a, const char *b)
{
    return strcmp(a, b) == 0 || (setting->spec != NULL && has_parts(setting->spec, a, b) &&
                                 has_parts(setting->spec, b, a));
}

bool tern_setting_equal(const struct tern_setting *setting, const void *a, const void *b)
{
    const char *x = (const char *)a + setting->offset;
    const char *y = (const char *)b + setting->offset;
    return is_text(setting->type) ? tern_setting_text_equal(setting, x, y)
                                  : memcmp(x, y, setting->size) == 0;
}
