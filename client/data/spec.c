#include "data/input.h"
#include "data/readers.h"
#include "util/math.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tern_result tern_spec_refuse(const struct tern_data_spec *spec, enum tern_result result,
                                  const char *format, ...)
{
    int used = snprintf(spec->why, TERN_DATA_WHY_MAX, "data '%.20s%s%.90s': ", spec->kind,
                        spec->path[0] != '\0' ? ":" : "", spec->path);
    va_list args;
    va_start(args, format);
    vsnprintf(spec->why + used, (size_t)(TERN_DATA_WHY_MAX - used), format, args);
    va_end(args);
    tern_why_finish(spec->why);
    return result;
}

// Takes the text up to the next comma; NULL at the end.
static char *next_part(char **rest)
{
    char *part = *rest;
    if (part == NULL || *part == '\0') {
        return NULL;
    }
    char *comma = strchr(part, ',');
    *rest = NULL;
    if (comma != NULL) {
        *comma = '\0';
        *rest = comma + 1;
    }
    return part;
}

static enum tern_result add_option(struct tern_data_spec *spec, char *part)
{
    char *equals = strchr(part, '=');
    if (equals == NULL || equals == part) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "'%.60s' is not of the form key=value",
                                part);
    }
    if (spec->option_count == TERN_DATA_SPEC_OPTIONS) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "has more than %d options",
                                TERN_DATA_SPEC_OPTIONS);
    }
    *equals = '\0';
    spec->options[spec->option_count].key = part;
    spec->options[spec->option_count].value = equals + 1;
    spec->option_count++;
    return TERN_OK;
}

void tern_data_spec_join(const char *source, const char *directory, char spec[TERN_DATA_SPEC_MAX])
{
    int kind = (int)strcspn(source, ",");
    if (directory[0] == '\0' || strchr(source, ':') != NULL) {
        snprintf(spec, TERN_DATA_SPEC_MAX, "%s", source);
    } else {
        snprintf(spec, TERN_DATA_SPEC_MAX, "%.*s:%s%s", kind, source, directory, source + kind);
    }
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
    char *part = next_part(&rest);
    if (part != NULL && strchr(part, '=') == NULL) {
        spec->path = part;
        part = next_part(&rest);
    }
    for (; part != NULL; part = next_part(&rest)) {
        TERN_TRY(add_option(spec, part));
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

bool tern_read_float(const char *text, float *value)
{
    // strtof also takes hexadecimal numbers, "inf" and leading space, which no table means.
    if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    char *end = NULL;
    *value = strtof(text, &end);
    return *end == '\0' && tern_is_finite(*value);
}

enum tern_result tern_spec_fraction(struct tern_data_spec *spec, const char *key, float low,
                                    float high, float *value)
{
    const char *text = tern_spec_option(spec, key);
    if (text == NULL) {
        return TERN_OK;
    }
    float number;
    if (!tern_read_float(text, &number) || number < low || number > high) {
        return tern_spec_refuse(spec, TERN_ERR_CONFIG, "%s=%.40s is not a number from %g to %g",
                                key, text, (double)low, (double)high);
    }
    *value = number;
    return TERN_OK;
}

enum tern_result tern_spec_scaling(struct tern_data_spec *spec, struct tern_data *data)
{
    float mean = 0.0f;
    float deviation = 1.0f;
    TERN_TRY(tern_spec_fraction(spec, "mean", 0.0f, 1.0f, &mean));
    TERN_TRY(tern_spec_fraction(spec, "std", 0.001f, 1.0f, &deviation));
    data->train.scale = 1.0f / 255.0f / deviation;
    data->train.offset = -mean / deviation;
    data->test.scale = data->train.scale;
    data->test.offset = data->train.offset;
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
