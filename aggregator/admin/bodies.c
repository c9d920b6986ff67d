// Parses the bodies of the admin API's requests. Refuses unknown and repeated keys, and numbers that would be rounded,
// because their author expects something else than the service would do.
#include "admin/internal.h"

#include "util/text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CODE_USES_DEFAULT 1
#define CODE_USES_MAX 1000000
#define CODE_EXPIRES_S_DEFAULT 86400
#define CODE_EXPIRES_S_MAX 31536000

#define QUOTED_MAX 40 // bytes of an unknown key in a message

// Whether JSON has the escape of U+0000, at which a C string would end.
static bool has_nul(const char *text, size_t len)
{
    static const char nul[] = "\\u0000";
    const size_t size = sizeof nul - 1;
    for (size_t i = 0; i + size <= len; i += text[i] == '\\' ? 2 : 1) {
        if (memcmp(text + i, nul, size) == 0) {
            return true;
        }
    }
    return false;
}

cJSON *tern_admin_read_object(const struct tern_http_request *request)
{
    const char *text = (const char *)request->body;
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(text, request->body_len, &end, 0);
    while (end != NULL && end < text + request->body_len && strchr(" \t\r\n", *end) != NULL &&
           *end != '\0') {
        end++;
    }
    if (!cJSON_IsObject(json) || end != text + request->body_len ||
        has_nul(text, request->body_len)) {
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

__attribute__((format(printf, 2, 3))) static bool refuse(char why[TERN_ADMIN_WHY_MAX],
                                                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_ADMIN_WHY_MAX, format, arguments);
    va_end(arguments);
    return false;
}

// --- Join codes

static bool take_number(const cJSON *item, uint64_t most, uint64_t *value,
                        char why[TERN_ADMIN_WHY_MAX])
{
    const double number = cJSON_GetNumberValue(item); // NaN where it is none
    if (!(number >= 1.0 && number <= (double)most) || (double)(uint64_t)number != number) {
        return refuse(why, "\"%s\" must be a whole number, 1..%" PRIu64 ".", item->string, most);
    }
    *value = (uint64_t)number;
    return true;
}

static bool take_label(const cJSON *item, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    const char *text = cJSON_GetStringValue(item);
    const size_t len = text != NULL ? strlen(text) : 0;
    if (text == NULL || len >= sizeof job->label || !tern_utf8_is_text(text, len)) {
        return refuse(why,
                      "\"label\" must be a text of at most %zu bytes of UTF-8 without control "
                      "characters.",
                      sizeof job->label - 1);
    }
    memcpy(job->label, text, len + 1);
    return true;
}

static bool take_tags(const cJSON *item, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    const char *text = cJSON_GetStringValue(item);
    char wrong[TERN_TAG_WHY_MAX];
    if (text == NULL) {
        return refuse(why, "\"tags\" must be a text such as \"site=a,line=3\".");
    }
    return tern_tags_parse(text, job->tags, wrong) == TERN_OK ||
           refuse(why, "\"tags\": %s.", wrong);
}

static bool take_key(const cJSON *item, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    uint64_t number = 0;
    if (strcmp(item->string, "uses") == 0) {
        const bool good = take_number(item, CODE_USES_MAX, &number, why);
        job->uses = (uint32_t)number;
        return good;
    }
    if (strcmp(item->string, "expires_s") == 0) {
        const bool good = take_number(item, CODE_EXPIRES_S_MAX, &number, why);
        job->expires_ms = number * 1000;
        return good;
    }
    if (strcmp(item->string, "label") == 0) {
        return take_label(item, job, why);
    }
    if (strcmp(item->string, "tags") == 0) {
        return take_tags(item, job, why);
    }
    if (strcmp(item->string, "evaluator") == 0) {
        job->evaluator = cJSON_IsTrue(item);
        return cJSON_IsBool(item) || refuse(why, "\"evaluator\" must be true or false.");
    }
    char key[QUOTED_MAX + 1];
    snprintf(key, sizeof key, "%s", item->string);
    tern_utf8_show(key, strlen(key));
    return refuse(why, "The key \"%s\" is unknown. Use uses, expires_s, label, tags or evaluator.",
                  key);
}

bool tern_admin_read_code(const struct tern_http_request *request, struct admin_job *job,
                          char why[TERN_ADMIN_WHY_MAX])
{
    job->uses = CODE_USES_DEFAULT;
    job->expires_ms = UINT64_C(1000) * CODE_EXPIRES_S_DEFAULT;
    if (request->body_len == 0) {
        return true;
    }
    cJSON *json = tern_admin_read_object(request);
    if (json == NULL) {
        return refuse(why, "Send {\"uses\": 10, \"expires_s\": 3600, \"label\": \"lab\", \"tags\": "
                           "\"site=a,line=3\"}, a JSON object, each key optional.");
    }
    bool good = true;
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        if (cJSON_GetObjectItemCaseSensitive(json, item->string) != item) {
            good = refuse(why, "The key \"%s\" is given twice.", item->string);
        }
        good = good && take_key(item, job, why);
    }
    cJSON_Delete(json);
    return good;
}
