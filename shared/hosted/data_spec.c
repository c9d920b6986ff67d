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
    // Without a colon the kind is all of the text.
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

// Takes the quotes off the text that `text` begins with, in place; two quotes within stand for one.
// Returns what follows, NULL when there is no closing quote.
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

// A part of a spec: "value", "key=value" or one of them with the value in quotes.
struct spec_part {
    char *key; // NULL: there is none
    char *value;
};

bool tern_spec_begins_with_place(const char *text, size_t len)
{
    return len > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyz_") < len;
}

// Takes the text up to the next comma outside quotes from *rest, which is NULL behind the last.
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
        return tern_spec_refuse(spec, TERN_ERR_CONFIG,
                                "a value in quotes must end with one, before a comma or the end; "
                                "\"\" stands for a quote within");
    }
    *rest = *end == ',' ? end + 1 : NULL;
    // An unquoted text already ends earlier.
    *end = '\0';
    return TERN_OK;
}

static enum tern_result add_option(struct tern_data_spec *spec, const struct spec_part *part)
{
    if (part->key == NULL || part->key[0] == '\0') {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "'%s%.60s' is not of the form key=value",
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
