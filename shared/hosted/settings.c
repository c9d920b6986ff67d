#include "hosted/settings.h"

#include "hosted/terminal.h"
#include "util/text.h"
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 512
#define LINE_MAX_BYTES 1024 // most bytes of an INI line

// --- Values

struct unit {
    const char *name;
    uint64_t factor;
};

// Units of counts and sizes: Ki is 1024 and K is 1000. A size may also end in B: KiB, KB. Units are
// in falling order, because a value is printed with the largest unit that divides it.
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

// Returns the unit that `text` names, or NULL.
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

// Reads decimal digits and one unit, which may follow a space. Returns false for any other text or
// a value above 64 bits.
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
        return problem_is(problem, "is empty");
    }
    if ((double)len > setting->max || len >= setting->size) {
        snprintf(problem, TERN_SETTING_PROBLEM_MAX, "is longer than %.0f bytes", setting->max);
        return TERN_ERR_CONFIG;
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

// Writes the shortest decimal number that reads back as the same double.
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

// Writes only the names; --settings prints their keys.
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
    if (setting->spec != NULL) {
        allow_specs(setting->spec, allowed);
        return;
    }
    if (setting->type == TERN_SETTING_ENUM || setting->type == TERN_SETTING_TEXT) {
        snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "%s", setting->words);
        return;
    }
    if (setting->type == TERN_SETTING_BOOL) {
        snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "yes or no");
        return;
    }
    char low[48];
    char high[48];
    format_limit(setting, setting->min, low, sizeof(low));
    format_limit(setting, setting->max, high, sizeof(high));
    snprintf(allowed, TERN_SETTING_ALLOWED_MAX, "%s from %s to %s", kinds[setting->type], low,
             high);
}

// --- Values of fields

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

// The parsed form of a spec string: the struct that the list's parameters refer to.
union spec_values {
    double aligned;
    char bytes[256];
};

struct parsed_spec {
    size_t name; // index in the setting's list of names
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

// Copies the next part of a joined spec string ("adaptive+deadline") from *rest and advances *rest
// behind the "+"; false at the end.
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

// Returns true if `b` contains each part of `a`. A name occurs in at most one part.
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

// --- Defaults

static void *field_of(const struct tern_setting *setting, void *values)
{
    return (char *)values + setting->offset;
}

void tern_settings_defaults(const struct tern_settings *settings, void *values)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct tern_setting *setting = &settings->table[i];
        char problem[TERN_SETTING_PROBLEM_MAX];
        memset(field_of(setting, values), 0, setting->size);
        if (setting->type == TERN_SETTING_TEXT && setting->fallback[0] == '\0') {
            continue;
        }
        if (tern_setting_parse(setting, setting->fallback, field_of(setting, values), problem) !=
            TERN_OK) {
            fprintf(stderr, "%s: the default of %s.%s %s\n", settings->program, setting->section,
                    setting->key, problem);
            abort();
        }
    }
}

// --- Finding settings, and suggestions for misspelt names

// Returns the edit distance between a setting and a written name. A wrong section adds one, so that
// the right key in a wrong section is still suggested.
static size_t setting_distance(const struct tern_setting *setting, const char *section,
                               const char *key)
{
    size_t distance = tern_edit_distance(key, setting->key);
    if (section != NULL && strcmp(section, setting->section) != 0 && distance != SIZE_MAX) {
        distance++;
    }
    return distance;
}

static const struct tern_setting *nearest(const struct tern_settings *settings, const char *section,
                                          const char *key)
{
    const struct tern_setting *best = NULL;
    size_t best_distance = tern_near_limit(key);
    for (size_t i = 0; i < settings->count; i++) {
        size_t distance = setting_distance(&settings->table[i], section, key);
        if (distance < best_distance) {
            best_distance = distance;
            best = &settings->table[i];
        }
    }
    return best;
}

static bool is_section(const struct tern_settings *settings, const char *section)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->table[i].section, section) == 0) {
            return true;
        }
    }
    return false;
}

#define AGGREGATOR "tern-aggregator"
#define CLIENT "tern-client"

const struct tern_settings_section tern_settings_sections[] = {{"admin", AGGREGATOR},
                                                               {"budget", CLIENT},
                                                               {"client", CLIENT},
                                                               {"codec", AGGREGATOR},
                                                               {"data", CLIENT},
                                                               {"deep", "./tern experiment"},
                                                               {"downloads", AGGREGATOR},
                                                               {"experiment", "./tern experiment"},
                                                               {"federation", AGGREGATOR},
                                                               {"fleet", "tern-fleet"},
                                                               {"helper", "tern-helper"},
                                                               {"limits", AGGREGATOR},
                                                               {"log", AGGREGATOR},
                                                               {"ring", "tern-ring"},
                                                               {"round", AGGREGATOR},
                                                               {"server", AGGREGATOR},
                                                               {"statistics", AGGREGATOR},
                                                               {"tensors", AGGREGATOR},
                                                               {"tls", AGGREGATOR},
                                                               {"train", AGGREGATOR},
                                                               {NULL, NULL}};

// Returns the row of a section that only other programs have; NULL: this program has it, or none
// does.
static const struct tern_settings_section *foreign(const struct tern_settings *settings,
                                                   const char *section)
{
    const struct tern_settings_section *row = settings->foreign_sections;
    for (; row != NULL && row->name != NULL; row++) {
        if (strcmp(row->name, section) == 0) {
            return is_section(settings, section) ? NULL : row;
        }
    }
    return NULL;
}

// Returns the section, of this program or another, with the most similar name; "": none is similar.
static const char *nearest_section(const struct tern_settings *settings, const char *section)
{
    struct tern_near_name search = {.written = section, .limit = tern_near_limit(section)};
    const struct tern_settings_section *row = settings->foreign_sections;
    for (size_t i = 0; i < settings->count; i++) {
        tern_near_offer(&search, settings->table[i].section);
    }
    for (; row != NULL && row->name != NULL; row++) {
        tern_near_offer(&search, row->name);
    }
    return search.best != NULL ? search.best : "";
}

// Finds a setting. section NULL: in any section; *matches: how many settings match.
static const struct tern_setting *find(const struct tern_settings *settings, const char *section,
                                       const char *key, size_t *matches)
{
    const struct tern_setting *found = NULL;
    *matches = 0;
    for (size_t i = 0; i < settings->count; i++) {
        const struct tern_setting *setting = &settings->table[i];
        if (strcmp(setting->key, key) == 0 &&
            (section == NULL || strcmp(setting->section, section) == 0)) {
            found = found == NULL ? setting : found;
            (*matches)++;
        }
    }
    return found;
}

static void append(char why[WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char why[WHY_MAX], const char *format, ...)
{
    size_t used = strlen(why);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why + used, WHY_MAX - used, format, arguments);
    va_end(arguments);
}

static void explain_unknown(const struct tern_settings *settings, const char *section,
                            const char *key, char why[WHY_MAX])
{
    const bool strange = section != NULL && !is_section(settings, section);
    const char *meant = strange ? nearest_section(settings, section) : "";
    size_t matches = 0;
    if (meant[0] != '\0' && find(settings, meant, key, &matches) == NULL) {
        append(why, "there is no section [%.60s]; did you mean [%s]?", section, meant);
        return;
    }
    if (strange) {
        append(why, "there is no section [%.60s]", section);
    } else if (section != NULL) {
        append(why, "there is no key '%.60s' in section [%.60s]", key, section);
    } else {
        append(why, "there is no setting '%.60s'", key);
    }
    // The unknown section may be a key of another section: [strategy] name becomes round.strategy.
    size_t named = 0;
    const struct tern_setting *guess = nearest(settings, meant[0] != '\0' ? meant : section, key);
    guess = guess == NULL && strange ? find(settings, NULL, section, &named) : guess;
    if (guess != NULL) {
        append(why, "; did you mean '%s' in section [%s]?", guess->key, guess->section);
    } else {
        append(why, "; %s --settings lists them all", settings->program);
    }
}

// Parses `text` into the setting's field; on error appends the reason to why.
static enum tern_result assign(const struct tern_setting *setting, void *values, const char *text,
                               char why[WHY_MAX])
{
    char problem[TERN_SETTING_PROBLEM_MAX];
    char allowed[TERN_SETTING_ALLOWED_MAX];
    if (tern_setting_parse(setting, text, field_of(setting, values), problem) == TERN_OK) {
        return TERN_OK;
    }
    if (problem[0] == ':') {
        append(why, "[%s] %s = '%.100s'%s", setting->section, setting->key, text, problem);
        return TERN_ERR_CONFIG;
    }
    tern_setting_allowed(setting, allowed);
    append(why, "[%s] %s = '%.100s' %s%s allowed: %s", setting->section, setting->key, text,
           problem, strchr(problem, '?') != NULL ? "" : ";", allowed);
    return TERN_ERR_CONFIG;
}

// --- Files

// The state of one load. `values` is a copy, so that an error leaves the caller's values unchanged.
struct load {
    const struct tern_settings *settings;
    void *values;
    unsigned *seen;                              // [i]: line that set the i-th setting; 0: not set
    const struct tern_settings_section *skipped; // the first section of another program; NULL: none
    unsigned skipped_line;
    FILE *stream;
    const char *path;
    unsigned line;
    bool failed;
    char *why;
};

// Starts the message of the load's first error with file and line.
static char *load_fails(struct load *load)
{
    load->failed = true;
    snprintf(load->why, WHY_MAX, "%s:%u: ", load->path, load->line);
    return load->why;
}

// Reads a line for libinih, like fgets(). Counts lines, and ends the file at the first error.
static char *read_line(char *line, int size, void *context)
{
    struct load *load = context;
    int used = 0;
    int c = EOF;
    load->line++;
    while (!load->failed && used < size - 1 && (c = getc(load->stream)) != EOF && c != '\0') {
        line[used++] = (char)c;
        if (c == '\n') {
            break;
        }
    }
    line[used] = '\0';
    if (load->failed || (used == 0 && c == EOF)) {
        return NULL;
    }
    if (c == '\0') {
        append(load_fails(load), "the line holds a NUL byte; an INI file is text");
        return NULL;
    }
    if (c != '\n' && c != EOF) {
        append(load_fails(load), "the line is longer than %d bytes", size - 2);
        return NULL;
    }
    return line;
}

static int handle_key(void *context, const char *section, const char *key, const char *text)
{
    struct load *load = context;
    size_t matches;
    const struct tern_settings_section *other = foreign(load->settings, section);
    if (load->failed || other != NULL) {
        if (load->skipped == NULL) {
            load->skipped = other;
            load->skipped_line = load->line;
        }
        return 1;
    }
    const struct tern_setting *setting = find(load->settings, section, key, &matches);
    if (setting == NULL) {
        explain_unknown(load->settings, section, key, load_fails(load));
        return 0;
    }
    unsigned *seen = &load->seen[setting - load->settings->table];
    if (*seen != 0) {
        append(load_fails(load), "[%s] %s is set twice; first in line %u", section, key, *seen);
        return 0;
    }
    *seen = load->line;
    char why[WHY_MAX] = "";
    if (assign(setting, load->values, text, why) != TERN_OK) {
        append(load_fails(load), "%s", why);
        return 0;
    }
    return 1;
}

// Refuses a file without any setting of this program: it belongs to another program, and loading it
// would silently keep every default.
static void refuse_foreign(struct load *load)
{
    for (size_t i = 0; i < load->settings->count; i++) {
        if (load->seen[i] != 0) {
            return;
        }
    }
    load->line = load->skipped_line;
    append(load_fails(load),
           "the file has no setting of %s: section [%s] is read by %s. Name the file of %s",
           load->settings->program, load->skipped->name, load->skipped->program,
           load->settings->program);
}

static enum tern_result parse_stream(struct load *load)
{
    // libinih is configured by globals. An indented line may not continue a value, because it would
    // silently replace it. A comment may not follow a value, because it would cut a value that
    // contains ";".
    ini_use_stack = false;
    ini_max_line = LINE_MAX_BYTES;
    ini_initial_alloc = LINE_MAX_BYTES;
    ini_stop_on_first_error = true;
    ini_allow_multiline = false;
    ini_allow_inline_comments = false;
    int line = ini_parse_stream(read_line, load, handle_key, load);
    if (!load->failed && ferror(load->stream)) {
        snprintf(load->why, WHY_MAX, "%s: %s", load->path, strerror(errno));
        return TERN_ERR_IO;
    }
    if (!load->failed && line != 0) {
        load->line = line > 0 ? (unsigned)line : load->line;
        append(load_fails(load), "neither a [section], nor key = value, nor a comment");
    }
    if (!load->failed && load->skipped != NULL && load->settings->foreign_keys == NULL) {
        refuse_foreign(load);
    }
    return load->failed ? TERN_ERR_CONFIG : TERN_OK;
}

// Returns the bytes of the program's struct up to the end of its last setting.
static size_t values_size(const struct tern_settings *settings)
{
    size_t size = 0;
    for (size_t i = 0; i < settings->count; i++) {
        size_t end = settings->table[i].offset + settings->table[i].size;
        size = end > size ? end : size;
    }
    return size;
}

enum tern_result tern_settings_load_stream(const struct tern_settings *settings, void *values,
                                           FILE *stream, const char *path, char why[WHY_MAX])
{
    size_t size = values_size(settings);
    struct load load = {
        .settings = settings,
        .values = malloc(size + 1),
        .seen = calloc(settings->count + 1, sizeof(unsigned)),
        .stream = stream,
        .path = path,
        .why = why,
    };
    enum tern_result result = TERN_ERR_NO_MEMORY;
    snprintf(why, WHY_MAX, "%s: %s", path, tern_result_sentence(result));
    if (load.values != NULL && load.seen != NULL) {
        memcpy(load.values, values, size);
        result = parse_stream(&load);
    }
    if (result == TERN_OK) {
        memcpy(values, load.values, size);
        why[0] = '\0';
    }
    free(load.values);
    free(load.seen);
    return result;
}

enum tern_result tern_settings_load(const struct tern_settings *settings, void *values,
                                    const char *path, char why[WHY_MAX])
{
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        snprintf(why, WHY_MAX, "%s: %s", path, strerror(errno));
        return errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
    }
    enum tern_result result = tern_settings_load_stream(settings, values, stream, path, why);
    fclose(stream);
    return result;
}

// --- Command line

static void explain_ambiguous(const struct tern_settings *settings, const char *key,
                              char why[WHY_MAX])
{
    append(why, "'%.60s' is in several sections; write one of", key);
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->table[i].key, key) == 0) {
            append(why, " %s.%s", settings->table[i].section, key);
        }
    }
}

// Splits "section.key=value" by writing NULs into `copy`. *section is NULL if the text has no
// section.
static bool split_assignment(char *copy, const char **section, const char **key, const char **text)
{
    char *equals = strchr(copy, '=');
    if (equals == NULL) {
        return false;
    }
    *equals = '\0';
    *text = equals + 1;
    char *dot = strchr(copy, '.');
    *section = NULL;
    *key = copy;
    if (dot != NULL) {
        *dot = '\0';
        *section = copy;
        *key = dot + 1;
    }
    return true;
}

// Returns true if foreign_keys lists this setting of another program.
static bool is_read(const struct tern_settings *settings, const char *section, const char *key)
{
    const char *const *name = settings->foreign_keys;
    const size_t len = strlen(section);
    for (; name != NULL && *name != NULL; name++) {
        if (strncmp(*name, section, len) == 0 && (*name)[len] == '.' &&
            strcmp(*name + len + 1, key) == 0) {
            return true;
        }
    }
    return false;
}

enum tern_result tern_settings_set(const struct tern_settings *settings, void *values,
                                   const char *assignment, char why[WHY_MAX])
{
    char copy[LINE_MAX_BYTES];
    const char *section;
    const char *key;
    const char *text;
    snprintf(why, WHY_MAX, "--set %.100s: ", assignment);
    if (strlen(assignment) >= sizeof(copy)) {
        append(why, "it is longer than %zu bytes", sizeof(copy) - 1);
        return TERN_ERR_CONFIG;
    }
    memcpy(copy, assignment, strlen(assignment) + 1);
    if (!split_assignment(copy, &section, &key, &text)) {
        append(why, "expected section.key=value");
        return TERN_ERR_CONFIG;
    }
    const struct tern_settings_section *other = section != NULL ? foreign(settings, section) : NULL;
    if (other != NULL && is_read(settings, section, key)) {
        return TERN_OK;
    }
    if (other != NULL) {
        append(why, "section [%s] is read by %s, and %s would ignore it: set it there", section,
               other->program, settings->program);
        return TERN_ERR_CONFIG;
    }
    size_t matches;
    const struct tern_setting *setting = find(settings, section, key, &matches);
    if (setting == NULL) {
        explain_unknown(settings, section, key, why);
        return TERN_ERR_CONFIG;
    }
    if (matches > 1) {
        explain_ambiguous(settings, key, why);
        return TERN_ERR_CONFIG;
    }
    return assign(setting, values, text, why);
}

const struct tern_setting *tern_settings_named(const struct tern_settings *settings,
                                               const char *assignment)
{
    char copy[LINE_MAX_BYTES];
    const char *section;
    const char *key;
    const char *text;
    size_t matches = 0;
    if (strlen(assignment) >= sizeof copy) {
        return NULL;
    }
    memcpy(copy, assignment, strlen(assignment) + 1);
    if (!split_assignment(copy, &section, &key, &text)) {
        return NULL;
    }
    const struct tern_setting *setting = find(settings, section, key, &matches);
    return matches == 1 ? setting : NULL;
}

// --- The example file

#define COLUMNS 96

static void print_comment(const char *text, FILE *out)
{
    tern_paragraph_print(text, "# ", "# ", COLUMNS, out);
}

static bool takes_settings_anew(const struct tern_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (settings->table[i].change == TERN_SETTING_LIVE) {
            return true;
        }
    }
    return false;
}

// --- The keys of spec strings

// Returns true if the entry has that key with the same range and preset.
static bool has_key(const struct tern_spec_entry *entry, const struct tern_spec_parameter *wanted)
{
    for (unsigned i = 0; entry->parameters[i].key != NULL; i++) {
        const struct tern_spec_parameter *own = &entry->parameters[i];
        if ((entry->used >> i & 1) != 0 && strcmp(own->key, wanted->key) == 0 &&
            strcmp(own->range, wanted->range) == 0 && own->preset == wanted->preset) {
            return true;
        }
    }
    return false;
}

// Prints a key with all names that have it. Prints nothing if a name before `first` has it, since
// the key was printed there.
static void print_key(const struct tern_spec_list *list, size_t first,
                      const struct tern_spec_parameter *parameter, FILE *out)
{
    char names[TERN_SETTING_ALLOWED_MAX] = "";
    char preset[TERN_SPEC_VALUE_MAX];
    char line[1024];
    struct tern_spec_entry entry;
    size_t len = 0;
    bool all = true;
    for (size_t i = 0; list->at(i, &entry); i++) {
        const bool has = has_key(&entry, parameter);
        all = all && has;
        if (has && i < first) {
            return;
        }
        if (has && len < sizeof names) {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                                    entry.name);
        }
    }
    tern_spec_format_preset(parameter, preset);
    snprintf(line, sizeof line, "%s: %s (%s; default %s). For %s.", parameter->key,
             parameter->meaning, parameter->range, preset, all ? "all" : names);
    tern_paragraph_print(line, "#   ", "#     ", COLUMNS, out);
}

static void print_keys(const struct tern_spec_list *list, FILE *out)
{
    struct tern_spec_entry entry;
    for (size_t i = 0; list->at(i, &entry); i++) {
        for (unsigned k = 0; entry.parameters[k].key != NULL; k++) {
            if ((entry.used >> k & 1) != 0) {
                print_key(list, i, &entry.parameters[k], out);
            }
        }
    }
}

// --- Settings

static void print_documented(const struct tern_setting *setting, bool stays, FILE *out)
{
    char allowed[TERN_SETTING_ALLOWED_MAX];
    char line[TERN_SETTING_ALLOWED_MAX + 128];
    bool unset = setting->fallback[0] == '\0';
    tern_setting_allowed(setting, allowed);
    snprintf(line, sizeof(line), "Allowed: %s. Default: %s.%s", allowed,
             unset ? "not set" : setting->fallback, stays ? " A change needs a restart." : "");
    print_comment(setting->doc, out);
    print_comment(line, out);
    if (setting->type == TERN_SETTING_SPEC) {
        print_keys(setting->spec->list, out);
    }
    fprintf(out, "%s%s = %s\n\n", unset ? "; " : "", setting->key, setting->fallback);
}

// Prints the section's header if the section changes.
static void print_section(const struct tern_settings *settings, size_t i, FILE *out)
{
    const struct tern_setting *table = settings->table;
    if (i == 0 || strcmp(table[i].section, table[i - 1].section) != 0) {
        fprintf(out, "[%s]\n", table[i].section);
    }
}

void tern_settings_print_example(const struct tern_settings *settings, const void *values,
                                 FILE *out)
{
    const bool is_live = takes_settings_anew(settings);
    fprintf(out,
            "# Settings of %s. Every key stands here with its default; a file needs only what it\n"
            "# changes. On the command line: --set section.key=value.\n%s\n",
            settings->program,
            is_live ? "# A service that runs reads the file again on SIGHUP; what needs a restart "
                      "says so.\n"
                    : "");
    for (size_t i = 0; i < settings->count; i++) {
        print_section(settings, i, out);
        const struct tern_setting *setting = &settings->table[i];
        print_documented(setting, is_live && setting->change == TERN_SETTING_RESTART, out);
    }
    if (settings->print_derived != NULL) {
        settings->print_derived(values, out);
    }
}
