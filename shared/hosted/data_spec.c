#include "hosted/data_spec.h"

#include "hosted/csv_text.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tern_result tern_spec_refuse(const struct tern_data_spec *spec, enum tern_result result,
                                  const char *format, ...)
{
    // Without a colon, the whole text is the kind.
    int used = spec->path[0] == '\0'
                   ? snprintf(spec->why, TERN_INPUT_WHY_MAX, "data '%.110s': ", spec->kind)
                   : snprintf(spec->why, TERN_INPUT_WHY_MAX, "data '%.20s:%.90s': ", spec->kind,
                              spec->path);
    va_list args;
    va_start(args, format);
    vsnprintf(spec->why + used, (size_t)(TERN_INPUT_WHY_MAX - used), format, args);
    va_end(args);
    tern_why_finish(spec->why);
    return result;
}

// Removes the quotes around the text that starts at `text`, in place; two quotes within become one. Returns the address
// behind the closing quote; NULL: there is none.
static char *unquote(char *text)
{
    char *to = text;
    for (char *from = text + 1; *from != '\0'; from++) {
        if (*from == '"' && *++from != '"') {
            *to = '\0';
            return from;
        }
        *to++ = *from;
    }
    return NULL;
}

// A part of a spec: "value" or "key=value"; the value may be in quotes.
struct spec_part {
    char *key; // NULL: a value alone
    char *value;
};

bool tern_spec_begins_with_place(const char *text, size_t len)
{
    return len > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyz_") < len;
}

// Reads the part up to the next comma outside quotes and advances *rest; NULL: it was the last part.
static enum tern_result next_part(const struct tern_data_spec *spec, bool first, char **rest,
                                  struct spec_part *part)
{
    char *text = *rest;
    const size_t len = strcspn(text, ",=\"");
    *part = (struct spec_part){.value = text};
    if (text[len] == '=' && !(first && tern_spec_begins_with_place(text, len))) {
        text[len] = '\0';
        *part = (struct spec_part){.key = text, .value = text + len + 1};
    }
    char *end =
        part->value[0] == '"' ? unquote(part->value) : part->value + strcspn(part->value, ",");
    if (end == NULL || (*end != ',' && *end != '\0')) {
        return tern_spec_refuse(
            spec, TERN_ERR_CONFIG,
            "a value in quotes must end with a quote before a comma or the end; "
            "write \"\" for a quote within");
    }
    *rest = *end == ',' ? end + 1 : NULL;
    *end = '\0'; // a text that was in quotes ends earlier
    return TERN_OK;
}

static enum tern_result add_option(struct tern_data_spec *spec, const struct spec_part *part)
{
    if (part->key == NULL || part->key[0] == '\0') {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "'%s%.60s' is not key=value",
                                part->key != NULL ? "=" : "", part->value);
    }
    for (uint32_t i = 0; i < spec->option_count; i++) {
        if (strcmp(spec->options[i].key, part->key) == 0) {
            return tern_spec_refuse(spec, TERN_ERR_CONFIG, "'%.40s' is given twice", part->key);
        }
    }
    if (spec->option_count == TERN_DATA_SPEC_OPTIONS) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "has more than %d options",
                                TERN_DATA_SPEC_OPTIONS);
    }
    spec->options[spec->option_count].key = part->key;
    spec->options[spec->option_count].value = part->value;
    spec->option_count++;
    return TERN_OK;
}

enum tern_result tern_data_spec_parse(struct tern_data_spec *spec, const char *text, char *why)
{
    memset(spec, 0, sizeof *spec);
    spec->why = why;
    spec->kind = spec->text;
    spec->path = "";
    size_t len = strlen(text);
    if (len >= sizeof spec->text) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "the text is longer than %zu bytes",
                                sizeof spec->text - 1);
    }
    memcpy(spec->text, text, len + 1);
    char *rest = strchr(spec->text, ':');
    if (rest == NULL) {
        return TERN_OK;
    }
    *rest++ = '\0';
    for (bool first = true; rest != NULL && *rest != '\0'; first = false) {
        struct spec_part part;
        TERN_TRY(next_part(spec, first, &rest, &part));
        if (first && part.key == NULL) {
            spec->path = part.value;
        } else {
            TERN_TRY(add_option(spec, &part));
        }
    }
    return TERN_OK;
}

const char *tern_spec_option(struct tern_data_spec *spec, const char *key)
{
    for (uint32_t i = 0; i < spec->option_count; i++) {
        if (strcmp(spec->options[i].key, key) == 0) {
            spec->options[i].used = true;
            return spec->options[i].value;
        }
    }
    return NULL;
}

enum tern_result tern_spec_number(struct tern_data_spec *spec, const char *key, uint64_t low,
                                  uint64_t high, uint64_t *value)
{
    const char *text = tern_spec_option(spec, key);
    if (text == NULL) {
        return TERN_OK;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < low ||
        number > high) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "%s=%.40s is not a whole number from %llu to %llu", key, text,
                                (unsigned long long)low, (unsigned long long)high);
    }
    *value = number;
    return TERN_OK;
}

enum tern_result tern_spec_fraction(struct tern_data_spec *spec, const char *key, float low,
                                    float high, float *value)
{
    const char *text = tern_spec_option(spec, key);
    if (text == NULL) {
        return TERN_OK;
    }
    float number;
    if (!tern_csv_number(text, &number) || number < low || number > high) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "%s=%.40s is not a number from %g to %g",
                                key, text, (double)low, (double)high);
    }
    *value = number;
    return TERN_OK;
}

enum tern_result tern_spec_done(const struct tern_data_spec *spec, const char *known)
{
    for (uint32_t i = 0; i < spec->option_count; i++) {
        if (!spec->options[i].used) {
            return tern_spec_refuse(spec, TERN_ERR_CONFIG, "no option '%.40s'; known: %s",
                                    spec->options[i].key, known);
        }
    }
    return TERN_OK;
}

// --- The options of tables

#define WORDS 4 // most words of an option

// Reads an option that is one of up to WORDS words; *chosen: the word's index, unchanged where the option was not given.
static enum tern_result read_word(struct tern_data_spec *spec, const char *key,
                                  const char *const words[WORDS], const char *known,
                                  uint32_t *chosen)
{
    const char *text = tern_spec_option(spec, key);
    for (uint32_t i = 0; text != NULL && i < WORDS; i++) {
        if (words[i] != NULL && strcmp(text, words[i]) == 0) {
            *chosen = i;
            return TERN_OK;
        }
    }
    return text == NULL ? TERN_OK
                        : tern_spec_refuse(spec, TERN_ERR_CONFIG, "%s=%.40s is not one of %s", key,
                                           text, known);
}

static enum tern_result read_words(struct tern_data_spec *spec, struct tern_csv_choice *choice)
{
    static const char *const headers[WORDS] = {
        [TERN_CSV_HEADER_YES] = "yes", [TERN_CSV_HEADER_NO] = "no"};
    static const char *const missing[WORDS] = {[TERN_CSV_MISSING_MEAN] = "mean",
                                               [TERN_CSV_MISSING_SKIP] = "skip",
                                               [TERN_CSV_MISSING_REFUSE] = "refuse",
                                               [TERN_CSV_MISSING_SKIP_UNLABELLED] =
                                                   "skip-unlabelled"};
    uint32_t header = choice->header;
    uint32_t what = choice->missing;
    TERN_TRY(read_word(spec, "header", headers, "yes and no", &header));
    TERN_TRY(read_word(spec, "missing", missing, "mean, skip, skip-unlabelled and refuse", &what));
    choice->header = (enum tern_csv_header)header;
    choice->missing = (enum tern_csv_missing)what;
    return TERN_OK;
}

// Refuses unknown options first: a misspelt option must not be reported as missing.
static enum tern_result refuse_unknown(const struct tern_data_spec *spec)
{
    static const char known[] = "label, target, drop, classes, group, header, missing, only, "
                                "test_file, test, seed, scale, ";
    for (uint32_t i = 0; i < spec->option_count; i++) {
        char listed[48];
        const int len = snprintf(listed, sizeof listed, "%s, ", spec->options[i].key);
        const char *found = len < (int)sizeof listed ? strstr(known, listed) : NULL;
        if (found == NULL || (found != known && found[-1] != ' ')) {
            return tern_spec_refuse(spec, TERN_ERR_CONFIG, "no option '%.40s'; known: %.*s",
                                    spec->options[i].key, (int)sizeof known - 3, known);
        }
    }
    return TERN_OK;
}

enum tern_result tern_csv_choose(struct tern_data_spec *spec, struct tern_csv_choice *choice)
{
    TERN_TRY(refuse_unknown(spec));
    const char *label = tern_spec_option(spec, "label");
    const char *target = tern_spec_option(spec, "target");
    const char *scale = tern_spec_option(spec, "scale");
    *choice = (struct tern_csv_choice){.classes = tern_spec_option(spec, "classes"),
                                       .drop = tern_spec_option(spec, "drop"),
                                       .group = tern_spec_option(spec, "group"),
                                       .numeric = target != NULL};
    if (target != NULL && (label != NULL || choice->classes != NULL)) {
        return tern_spec_refuse(
            spec, TERN_ERR_CONFIG,
            "target names a column of numbers to predict, label a column of classes: "
            "give one of them, and classes= with label only");
    }
    // A column whose name is "none" can be given by number.
    choice->unlabelled = label != NULL && strcmp(label, "none") == 0;
    choice->label = target != NULL ? target : choice->unlabelled ? NULL : label;
    choice->scaled = scale != NULL && strcmp(scale, "none") != 0 && strcmp(scale, "standard") != 0;
    return read_words(spec, choice);
}
