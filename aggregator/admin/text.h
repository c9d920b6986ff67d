// A growing text, for replies. After it ran out of memory it stays empty and says so. Not shared.
#ifndef TERN_ADMIN_TEXT_H
#define TERN_ADMIN_TEXT_H

#include "http/http.h"
#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data;
    size_t len;
    size_t size;
    bool failed;
};

void tern_text_add(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Turns the text into a blob and frees it. NULL when memory ran out.
struct tern_blob *tern_text_finish(struct text *text);

#endif
