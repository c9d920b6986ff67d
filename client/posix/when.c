#define _GNU_SOURCE
#include "posix/conditions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN "unmetered, charging, idle, load<N, temperature<N, battery>N"
#define ITEM_MAX 64

static const struct {
    const char *name;
    char sign;
    double least;
    double most;
    const char *example;
} table[TERN_CONDITION_COUNT] = {
    [TERN_CONDITION_UNMETERED] = {.name = "unmetered"},
    [TERN_CONDITION_CHARGING] = {.name = "charging"},
    [TERN_CONDITION_LOAD] = {"load", '<', 0.01, 1000, "load<1.5"},
    [TERN_CONDITION_TEMPERATURE] = {"temperature", '<', -50, 150, "temperature<70"},
    [TERN_CONDITION_BATTERY] = {"battery", '>', 0, 95, "battery>40"},
};

const char *tern_condition_name(enum tern_condition condition)
{
    return table[condition].name;
}

char tern_condition_sign(enum tern_condition condition)
{
    return table[condition].sign;
}

void tern_when_format(const struct tern_when *when, enum tern_condition condition, char *text,
                      size_t size)
{
    if (table[condition].sign == '\0') {
        snprintf(text, size, "%s", table[condition].name);
    } else {
        snprintf(text, size, "%s%c%g", table[condition].name, table[condition].sign,
                 when->limit[condition]);
    }
}

static enum tern_result refuse(char why[TERN_WHEN_WHY_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum tern_result refuse(char why[TERN_WHEN_WHY_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_WHEN_WHY_MAX, format, arguments);
    va_end(arguments);
    return TERN_ERR_CONFIG;
}

// Copies the text between start and end without surrounding blanks. Returns false if it does not fit.
static bool trim(const char *start, const char *end, char item[ITEM_MAX])
{
    while (start < end && (*start == ' ' || *start == '\t')) {
        start++;
    }
    while (end > start && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    const size_t len = (size_t)(end - start);
    if (len >= ITEM_MAX) {
        return false;
    }
    memcpy(item, start, len);
    item[len] = '\0';
    return true;
}

static bool read_limit(const char *text, double *limit)
{
    char *end = NULL;
    if (text[0] == '\0' || text[strspn(text, "-.0123456789")] != '\0') {
        return false;
    }
    *limit = strtod(text, &end);
    return end != text && *end == '\0';
}

static enum tern_result set_condition(struct tern_when *when, enum tern_condition condition,
                                      double limit, char why[TERN_WHEN_WHY_MAX])
{
    if (when->required[condition]) {
        return refuse(why, "%s is named twice%s", table[condition].name,
                      condition == TERN_CONDITION_LOAD ? "; idle is short for load<0.3" : "");
    }
    when->required[condition] = true;
    when->limit[condition] = limit;
    return TERN_OK;
}

// Parses a known condition. item: its complete text. rest: the text after the name, which begins with the sign.
static enum tern_result read_known(enum tern_condition condition, const char *item,
                                   const char *rest, struct tern_when *when,
                                   char why[TERN_WHEN_WHY_MAX])
{
    char number[ITEM_MAX] = "";
    double limit = 0;
    if (table[condition].sign == '\0') {
        return rest[0] == '\0'
                   ? set_condition(when, condition, 0, why)
                   : refuse(why, "\"%s\": %s takes no limit", item, table[condition].name);
    }
    if (rest[0] == '\0' || rest[0] != table[condition].sign ||
        !trim(rest + 1, rest + strlen(rest), number) || !read_limit(number, &limit)) {
        return refuse(why, "\"%s\": %s needs %c and a number, e.g. %s", item, table[condition].name,
                      table[condition].sign, table[condition].example);
    }
    if (limit < table[condition].least || limit > table[condition].most) {
        return refuse(why, "\"%s\": the limit of %s must be from %g to %g", item,
                      table[condition].name, table[condition].least, table[condition].most);
    }
    return set_condition(when, condition, limit, why);
}

static enum tern_result read_item(const char *item, struct tern_when *when,
                                  char why[TERN_WHEN_WHY_MAX])
{
    char name[ITEM_MAX];
    const char *rest = item + strcspn(item, "<>=");
    if (item[0] == '\0') {
        return refuse(why, "a condition is missing before or after a comma; known: " KNOWN);
    }
    (void)trim(item, rest, name); // name is as large as the item, so it fits
    if (strcmp(name, "idle") == 0) {
        return rest[0] == '\0' ? set_condition(when, TERN_CONDITION_LOAD, TERN_WHEN_IDLE_LOAD, why)
                               : refuse(why, "\"%s\": idle takes no limit, load<N does", item);
    }
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        if (strcmp(name, table[i].name) == 0) {
            return read_known((enum tern_condition)i, item, rest, when, why);
        }
    }
    return refuse(why, "\"%s\" is no condition; known: " KNOWN, item);
}

enum tern_result tern_when_parse(const char *text, struct tern_when *when,
                                 char why[TERN_WHEN_WHY_MAX])
{
    struct tern_when read = {0};
    char item[ITEM_MAX];
    const char *at = text;
    if (text[strspn(text, " \t")] == '\0') {
        *when = read;
        return TERN_OK;
    }
    for (;;) {
        const char *comma = strchrnul(at, ',');
        if (!trim(at, comma, item)) {
            return refuse(why, "\"%.40s...\" is no condition; known: " KNOWN, at);
        }
        TERN_TRY(read_item(item, &read, why));
        if (*comma == '\0') {
            break;
        }
        at = comma + 1;
    }
    *when = read;
    return TERN_OK;
}
