#include "hosted/findings.h"
#include "util/utf8.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SENTENCE_MAX (2 * PATH_MAX)

static void add(cJSON *list, const char *health, const char *area, const char *sentence,
                const char *advice)
{
    cJSON *finding = cJSON_CreateObject();
    cJSON_AddStringToObject(finding, "health", health);
    cJSON_AddStringToObject(finding, "area", area);
    cJSON_AddStringToObject(finding, "finding", sentence);
    if (advice != NULL) {
        cJSON_AddStringToObject(finding, "advice", advice);
    } else {
        cJSON_AddNullToObject(finding, "advice");
    }
    cJSON_AddItemToArray(list, finding);
}

void tern_findings_say(struct tern_findings *findings, enum tern_health health, const char *area,
                       const char *advice, const char *format, ...)
{
    static const char *const names[TERN_HEALTH_COUNT] = {"good", "warning", "problem"};
    static const char *const marks[TERN_HEALTH_COUNT] = {"good", "WARNING", "PROBLEM"};
    char sentence[SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    tern_utf8_show(sentence, strlen(sentence));
    findings->count[health]++;
    if (findings->list != NULL) {
        add(findings->list, names[health], area, sentence, advice);
        return;
    }
    printf("%-8s %-12s %s\n", marks[health], area, sentence);
    if (advice != NULL) {
        printf("%-21s What to do: %s\n", "", advice);
    }
}
