// What the probes share: short files, and readings in words.
#define _GNU_SOURCE
#include "posix/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tern_probe_text(const char *root, const char *path, char *text, size_t size)
{
    char whole[TERN_PROBE_PATH];
    text[0] = '\0';
    if (snprintf(whole, sizeof whole, "%s/%s", root, path) >= (int)sizeof whole) {
        return false;
    }
    // Not blocking: what stands there may be no ordinary file.
    const int fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    const ssize_t got = read(fd, text, size - 1);
    close(fd);
    const size_t len = got > 0 ? (size_t)got : 0;
    text[memchr(text, '\0', len) == NULL ? len : 0] = '\0';
    return text[0] != '\0';
}

bool tern_probe_line(const char *root, const char *path, char *line, size_t size)
{
    tern_probe_text(root, path, line, size);
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0';
}

bool tern_probe_number(const char *text, long *number)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0) {
        return false;
    }
    *number = value;
    return true;
}

void tern_reading_known(struct tern_reading *reading, double value, const char *format, ...)
{
    va_list arguments;
    reading->known = true;
    reading->value = value;
    va_start(arguments, format);
    vsnprintf(reading->said, sizeof reading->said, format, arguments);
    va_end(arguments);
}

void tern_reading_unknown(struct tern_reading *reading, const char *format, ...)
{
    va_list arguments;
    reading->known = false;
    reading->value = 0;
    va_start(arguments, format);
    vsnprintf(reading->said, sizeof reading->said, format, arguments);
    va_end(arguments);
}
