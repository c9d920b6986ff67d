#include "data/readers.h"
#include "hosted/csv.h"
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
                   ? snprintf(spec->why, TERN_DATA_WHY_MAX, "data '%.110s': ", spec->kind)
                   : snprintf(spec->why, TERN_DATA_WHY_MAX, "data '%.20s:%.90s': ", spec->kind,
                              spec->path);
    va_list args;
    va_start(args, format);
    vsnprintf(spec->why + used, (size_t)(TERN_DATA_WHY_MAX - used), format, args);
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

// Whether the first part, whose first "=" is behind `len` bytes, is a place: a path may have one, as in
// /data/site=3/table.csv. One that begins as an option does, key=, must be in quotes.
static bool is_place(const char *text, size_t len)
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
    if (text[len] == '=' && !(first && is_place(text, len))) {
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
    // The text that lost its quotes already ends before.
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

// Appends text to spec as far as there is room.
static void append(char spec[TERN_DATA_SPEC_MAX], const char *text, size_t len)
{
    const size_t used = strlen(spec);
    const size_t room = TERN_DATA_SPEC_MAX - 1 - used;
    const size_t part = len < room ? len : room;
    memcpy(spec + used, text, part);
    spec[used + part] = '\0';
}

static void append_quoted(char spec[TERN_DATA_SPEC_MAX], const char *text)
{
    append(spec, "\"", 1);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            append(spec, "\"", 1);
        }
        append(spec, text, 1);
    }
    append(spec, "\"", 1);
}

void tern_data_spec_join(const char *source, const char *directory, char spec[TERN_DATA_SPEC_MAX])
{
    const size_t kind = strcspn(source, ",:");
    spec[0] = '\0';
    append(spec, source, kind);
    if (directory[0] != '\0' && source[kind] != ':') {
        append(spec, ":", 1);
        if (strpbrk(directory, ",=\"") != NULL) {
            append_quoted(spec, directory);
        } else {
            append(spec, directory, strlen(directory));
        }
    }
    append(spec, source + kind, strlen(source + kind));
}

// Bytes of the place that the part of a source behind the colon begins with; 0: there is none.
static size_t place_len(const char *text)
{
    size_t len = strcspn(text, ",=\"");
    if (text[0] == '"') {
        for (len = 1; text[len] != '\0' && (text[len] != '"' || text[len + 1] == '"');) {
            len += text[len] == '"' ? 2 : 1;
        }
        return len + (text[len] == '"');
    }
    return text[len] == '=' && !is_place(text, len) ? 0 : strcspn(text, ",");
}

void tern_data_spec_move(const char *source, const char *place, char spec[TERN_DATA_SPEC_MAX])
{
    const size_t kind = strcspn(source, ",:");
    const char *options = source + kind;
    spec[0] = '\0';
    append(spec, source, kind);
    append(spec, ":", 1);
    append_quoted(spec, place);
    if (*options == ':') {
        options++;
        options += place_len(options);
        if (*options != '\0' && *options != ',') {
            append(spec, ",", 1);
        }
    }
    append(spec, options, strlen(options));
}

enum tern_result tern_spec_parse(struct tern_data_spec *spec, const char *text, char *why)
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

// Of bytes, which stay as they are until a batch is gathered.
static void scale_bytes(const struct tern_scaling *scaling, struct tern_data *data)
{
    data->train.scale = 1.0f / 255.0f / scaling->deviation;
    data->train.offset = -scaling->mean / scaling->deviation;
    data->test.scale = data->train.scale;
    data->test.offset = data->train.offset;
}

enum tern_result tern_spec_scaling(struct tern_data_spec *spec, struct tern_data *data)
{
    struct tern_scaling scaling = {.deviation = 1.0f};
    TERN_TRY(tern_spec_fraction(spec, "mean", 0.0f, 1.0f, &scaling.mean));
    TERN_TRY(tern_spec_fraction(spec, "std", 0.001f, 1.0f, &scaling.deviation));
    scale_bytes(&scaling, data);
    return TERN_OK;
}

enum tern_result tern_spec_scaling_of_numbers(struct tern_data_spec *spec, struct tern_data *data,
                                              struct tern_scaling *scaling)
{
    *scaling = (struct tern_scaling){.deviation = 1.0f};
    TERN_TRY(tern_spec_fraction(spec, "mean", -1e9f, 1e9f, &scaling->mean));
    TERN_TRY(tern_spec_fraction(spec, "std", 1e-6f, 1e9f, &scaling->deviation));
    scaling->given =
        tern_spec_option(spec, "mean") != NULL || tern_spec_option(spec, "std") != NULL;
    scale_bytes(scaling, data);
    return TERN_OK;
}

void tern_scale_numbers(const struct tern_scaling *scaling, float *values, size_t count)
{
    for (size_t i = 0; scaling->given && i < count; i++) {
        values[i] = (values[i] - scaling->mean) / scaling->deviation;
    }
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
