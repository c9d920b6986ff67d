#include "hosted/log.h"
#include "util/utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static const char *const names[] = {"error", "warn", "info", "debug"};
static atomic_int threshold = TERN_LOG_INFO;

void tern_log_set_level(enum tern_log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

static bool enabled(enum tern_log_level level)
{
    return (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

bool tern_log_level_parse(const char *text, enum tern_log_level *level)
{
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *level = (enum tern_log_level)i;
            return true;
        }
    }
    return false;
}

static size_t at_most(int printed, size_t room)
{
    if (printed < 0) {
        return 0;
    }
    return (size_t)printed < room ? (size_t)printed : room - 1;
}

// One write() per line, so that lines of several threads and processes do not mix. A log that
// cannot be written has nowhere to complain to.
static void write_line(const char *line, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDERR_FILENO, line, len);
        if (done < 0 && errno != EINTR) {
            return;
        }
        if (done > 0) {
            line += done;
            len -= (size_t)done;
        }
    }
}

void tern_log(enum tern_log_level level, const char *event, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    int saved_errno = errno;
    if (!enabled(level)) {
        return;
    }
    size_t room = sizeof(line) - 1; // for the newline
    size_t len = at_most(snprintf(line, room, "level=%s event=%s", names[level], event), room);
    if (format != NULL && len + 1 < room) {
        line[len++] = ' ';
        va_list arguments;
        va_start(arguments, format);
        len += at_most(vsnprintf(line + len, room - len, format, arguments), room - len);
        va_end(arguments);
    }
    tern_utf8_show(line, len);
    line[len++] = '\n';
    write_line(line, len);
    errno = saved_errno;
}

const char *tern_log_text(char dst[TERN_LOG_TEXT_MAX], const char *text)
{
    text = text == NULL ? "" : text;
    if (text[0] != '\0' && strpbrk(text, " \"\\=") == NULL) {
        snprintf(dst, TERN_LOG_TEXT_MAX, "%s", text);
        return dst;
    }
    size_t used = 0;
    dst[used++] = '"';
    // Each turn writes at most two bytes; the closing quote and the NUL follow.
    for (; *text != '\0' && used + 4 <= TERN_LOG_TEXT_MAX; text++) {
        if (*text == '"' || *text == '\\') {
            dst[used++] = '\\';
        }
        dst[used++] = *text;
    }
    dst[used++] = '"';
    dst[used] = '\0';
    return dst;
}
