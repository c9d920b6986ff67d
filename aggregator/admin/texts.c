#include "admin/texts.h"

#include <inttypes.h>
#include <stdio.h>

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
