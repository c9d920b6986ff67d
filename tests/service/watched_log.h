// What the service logs, for a test to count. After cmocka.h.
#ifndef TERN_TEST_WATCHED_LOG_H
#define TERN_TEST_WATCHED_LOG_H

#include "hosted/log.h"
#include "tests/asserts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *log_file;
static int log_saved;

static inline void watch_log(void)
{
    log_file = tmpfile();
    assert_non_null(log_file);
    fflush(stderr);
    log_saved = dup(STDERR_FILENO);
    assert_true(dup2(fileno(log_file), STDERR_FILENO) >= 0);
    tern_log_set_level(TERN_LOG_WARN);
}

// Lines since then that have this in them.
static inline unsigned lines_with(const char *text)
{
    char line[1024];
    unsigned count = 0;
    fflush(stderr);
    rewind(log_file);
    while (fgets(line, sizeof line, log_file) != NULL) {
        count += strstr(line, text) != NULL;
    }
    return count;
}

// Lines of this event whose keys, behind the request's where there is one, begin with these.
static inline unsigned lines_of(const char *event, const char *keys)
{
    char line[1024];
    char head[64];
    unsigned count = 0;
    fflush(stderr);
    rewind(log_file);
    snprintf(head, sizeof head, " event=%s ", event);
    while (fgets(line, sizeof line, log_file) != NULL) {
        const char *at = strstr(line, head);
        at = at != NULL ? at + strlen(head) : NULL;
        if (at != NULL && strncmp(at, "request=", 8) == 0) {
            at = strchr(at, ' ') + 1;
        }
        count += at != NULL && strncmp(at, keys, strlen(keys)) == 0;
    }
    return count;
}

static inline void leave_log(void)
{
    tern_log_set_level(TERN_LOG_ERROR);
    dup2(log_saved, STDERR_FILENO);
    close(log_saved);
    fclose(log_file);
}

#endif
