#include "views/texts.h"

#include "hosted/terminal.h"
#include "util/bytes.h"
#include "util/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *tern_text_duration(uint64_t ms, char text[TERN_TEXT])
{
    uint64_t s = ms / 1000;
    if (ms < 1000) {
        snprintf(text, TERN_TEXT, "%" PRIu64 " ms", ms);
    } else if (s < 60) {
        snprintf(text, TERN_TEXT, "%" PRIu64 ".%" PRIu64 " s", s, ms % 1000 / 100);
    } else if (s < 3600) {
        snprintf(text, TERN_TEXT, "%" PRIu64 " m %" PRIu64 " s", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(text, TERN_TEXT, "%" PRIu64 " h %" PRIu64 " m", s / 3600, s / 60 % 60);
    } else {
        snprintf(text, TERN_TEXT, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
    }
    return text;
}

const char *tern_text_time(uint64_t unix_ms, char text[TERN_TEXT])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    if (unix_ms == 0 || gmtime_r(&seconds, &parts) == NULL) {
        snprintf(text, TERN_TEXT, "never");
        return text;
    }
    strftime(text, TERN_TEXT, "%Y-%m-%d %H:%M:%SZ", &parts);
    return text;
}

const char *tern_text_ago(uint64_t then_ms, uint64_t now_ms, char text[TERN_TEXT])
{
    char duration[TERN_TEXT];
    if (then_ms == 0) {
        snprintf(text, TERN_TEXT, "never");
        return text;
    }
    tern_text_duration(now_ms > then_ms ? now_ms - then_ms : 0, duration);
    snprintf(text, TERN_TEXT, "%.80s ago", duration);
    return text;
}

const char *tern_text_bytes(double bytes, char text[TERN_TEXT])
{
    static const char *const units[] = {"KB", "MB", "GB", "TB"};
    if (bytes < 999.5) {
        snprintf(text, TERN_TEXT, "%.0f B", bytes);
        return text;
    }
    size_t unit = 0;
    double value = bytes / 1000.0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000.0;
        unit++;
    }
    snprintf(text, TERN_TEXT, value < 9.995 ? "%.2f %s" : "%.1f %s", value, units[unit]);
    return text;
}

const char *tern_text_name(const char *name, char text[TERN_TEXT])
{
    snprintf(text, TERN_TEXT, "%s", name);
    tern_utf8_show(text, strlen(text));
    return text;
}

// --- JSON

static void add_raw(cJSON *object, const char *key, const char *text)
{
    if (key[0] != '\0') {
        cJSON_AddRawToObject(object, key, text);
    }
}

void tern_json_text(cJSON *object, const char *key, const char *text)
{
    if (key[0] != '\0') {
        cJSON_AddStringToObject(object, key, text);
    }
}

void tern_json_bool(cJSON *object, const char *key, bool value)
{
    add_raw(object, key, value ? "true" : "false");
}

void tern_json_u64(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    add_raw(object, key, text);
}

void tern_json_hash(cJSON *object, const char *key, const uint8_t hash[TERN_SHA256_SIZE])
{
    char text[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(hash, TERN_SHA256_SIZE, text);
    tern_json_text(object, key, text);
}

void tern_json_float(cJSON *object, const char *key, float value)
{
    char text[TERN_FLOAT_TEXT];
    add_raw(object, key, tern_float_text(value, text));
}
