#include "admin/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct text *text, size_t more)
{
    size_t size = text->size == 0 ? 4096 : text->size;
    while (size - text->len < more) {
        size *= 2;
    }
    char *data = size == text->size ? text->data : realloc(text->data, size);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->size = size;
    return true;
}

void tern_text_add(struct text *text, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= sizeof line) {
        text->failed = true;
    }
    if (!text->failed && make_room(text, (size_t)len)) {
        memcpy(text->data + text->len, line, (size_t)len);
        text->len += (size_t)len;
    }
}

struct tern_blob *tern_text_finish(struct text *text)
{
    struct tern_blob *blob = text->failed ? NULL : tern_blob_new(text->len);
    if (blob != NULL && text->len > 0) {
        memcpy(blob->data, text->data, text->len);
    }
    free(text->data);
    memset(text, 0, sizeof *text);
    return blob;
}
