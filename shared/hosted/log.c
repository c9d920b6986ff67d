#include "hosted/log.h"

#include "hosted/terminal.h"
#include "util/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The key that tern_log_set_request() adds to a line; its value is always a number.
#define TERN_LOG_REQUEST "request"

// --- JSON

// Converts a line of the log to a JSON object. Pure; reentrant.

// One key=value pair of the line; points into the line.
struct pair {
    const char *key;
    size_t key_len;
    const char *value; // without the quotes, with the escapes
    size_t value_len;
    bool quoted;
};

// --- Parsing the line

static size_t length_of_quoted(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] != '"') {
        i += text[i] == '\\' && i + 1 < len ? 2 : 1;
    }
    return i;
}

static size_t length_until(const char *text, size_t len, char end)
{
    const char *found = memchr(text, end, len);
    return found != NULL ? (size_t)(found - text) : len;
}

// Reads the first pair and returns its length with the following space. A truncated line may end
// within a key or value.
static size_t take_pair(const char *text, size_t len, struct pair *pair)
{
    const size_t word = length_until(text, len, ' ');
    pair->key = text;
    pair->key_len = length_until(text, word, '=');
    size_t at = pair->key_len < len ? pair->key_len + 1 : len;
    pair->quoted = at < len && text[at] == '"' && pair->key_len < word;
    at += pair->quoted;
    pair->value = text + at;
    pair->value_len = pair->quoted ? length_of_quoted(text + at, len - at)
                                   : length_until(text + at, len - at, ' ');
    if (pair->key_len == word) { // no "=": the line was truncated
        pair->value_len = 0;
        at = word;
    }
    at += pair->value_len + pair->quoted;
    return at + 1 < len ? at + 1 : len; // the space
}

// --- Numbers

// Returns true if the value is a number: the line's head has it, or the format prints it with a
// number conversion.
static bool prints_number(const char *format, const struct pair *pair)
{
    if (pair->key_len == sizeof TERN_LOG_REQUEST - 1 &&
        memcmp(pair->key, TERN_LOG_REQUEST, pair->key_len) == 0) {
        return true;
    }
    for (const char *at = format; at != NULL && *at != '\0';) {
        if (strncmp(at, pair->key, pair->key_len) == 0 && at[pair->key_len] == '=') {
            at += pair->key_len + 1;
            return *at == '%' && strchr("diufgeFGE", at[strcspn(at, "diufgeFGEsxXcop")]) != NULL;
        }
        at = strchr(at, ' ');
        at += at != NULL;
    }
    return false;
}

static size_t digits(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] >= '0' && text[i] <= '9') {
        i++;
    }
    return i;
}

// Returns true for a JSON number (RFC 8259), not for "nan", "inf" or a number that was truncated
// after its point.
static bool is_number(const char *text, size_t len)
{
    size_t at = len > 0 && text[0] == '-';
    const size_t whole = digits(text + at, len - at);
    if (whole == 0 || (whole > 1 && text[at] == '0')) {
        return false;
    }
    at += whole;
    if (at < len && text[at] == '.') {
        const size_t fraction = digits(text + at + 1, len - at - 1);
        at = fraction > 0 ? at + 1 + fraction : len + 1;
    }
    if (at < len && text[at] == 'e') {
        at++;
        at += at < len && (text[at] == '-' || text[at] == '+');
        const size_t exponent = digits(text + at, len - at);
        at = exponent > 0 ? at + exponent : len + 1;
    }
    return at == len;
}

// --- Writing the object

static char *put(char *dst, const char *text, size_t len)
{
    memcpy(dst, text, len);
    return dst + len;
}

// Copies the escapes of a quoted value, which are valid in JSON too, but omits a truncated one.
static char *put_text(char *dst, const struct pair *pair)
{
    *dst++ = '"';
    for (size_t i = 0; i < pair->value_len; i++) {
        const char c = pair->value[i];
        if (pair->quoted && c == '\\') {
            if (i + 1 < pair->value_len) {
                dst = put(dst, pair->value + i, 2);
            }
            i++;
        } else {
            if (c == '\\' || c == '"') {
                *dst++ = '\\';
            }
            *dst++ = c;
        }
    }
    *dst++ = '"';
    return dst;
}

static char *put_pair(char *dst, const char *format, const struct pair *pair)
{
    *dst++ = '"';
    dst = put(dst, pair->key, pair->key_len);
    dst = put(dst, "\":", 2);
    const bool number =
        !pair->quoted && prints_number(format, pair) && is_number(pair->value, pair->value_len);
    return number ? put(dst, pair->value, pair->value_len) : put_text(dst, pair);
}

size_t tern_log_json(const char *format, const char *line, size_t len, char *dst)
{
    char *at = dst;
    *at++ = '{';
    for (size_t taken = 0; taken < len;) {
        struct pair pair;
        if (taken > 0) {
            *at++ = ',';
        }
        taken += take_pair(line + taken, len - taken, &pair);
        at = put_pair(at, format, &pair);
    }
    at = put(at, "}\n", 2);
    return (size_t)(at - dst);
}

// --- Lines

#define LINE_MAX_BYTES 2048

static const char *const names[] = {"error", "warn", "info", "debug"};
static const char *const formats[] = {"text", "json"};
static atomic_int threshold = TERN_LOG_INFO;
static atomic_int chosen_format = TERN_LOG_AS_TEXT;

static _Thread_local uint64_t current_request;

void tern_log_set_request(uint64_t request)
{
    current_request = request;
}

uint64_t tern_log_request(void)
{
    return current_request;
}

void tern_log_set_level(enum tern_log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

static bool enabled(enum tern_log_level level)
{
    return (int)level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

// Returns the index of a name in the list, or `fallback`.
static unsigned find(const char *name, const char *const *list, unsigned count, unsigned fallback)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0) {
            return i;
        }
    }
    return fallback;
}

enum tern_log_level tern_log_level_named(const char *name)
{
    return (enum tern_log_level)find(name, names, sizeof names / sizeof names[0], TERN_LOG_INFO);
}

void tern_log_set_format(enum tern_log_format format)
{
    atomic_store_explicit(&chosen_format, (int)format, memory_order_relaxed);
}

enum tern_log_format tern_log_format_named(const char *name)
{
    return (enum tern_log_format)find(name, formats, sizeof formats / sizeof formats[0],
                                      TERN_LOG_AS_TEXT);
}

static size_t at_most(int printed, size_t room)
{
    if (printed < 0) {
        return 0;
    }
    return (size_t)printed < room ? (size_t)printed : room - 1;
}

// --- Progress

#define PROGRESS_MAX 256
#define CLEAR_LINE "\r\x1b[K"

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static char progress[PROGRESS_MAX]; // "": no status line
static atomic_bool shows_progress;

// Writes a line with one write(), so that lines of several threads and processes do not mix. If the
// log cannot be written, there is no place to report it.
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

// Writes "time=... level=... event=..." and, if the thread works for a request, " request=...".
static size_t write_head(enum tern_log_level level, const char *event, char *line, size_t room)
{
    struct timespec now;
    struct tm date;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &date);
    size_t len = strftime(line, room, "time=%Y-%m-%dT%H:%M:%S", &date);
    len += at_most(snprintf(line + len, room - len, ".%03dZ level=%s event=%s",
                            (int)(now.tv_nsec / 1000000), names[level], event),
                   room - len);
    if (current_request != 0) {
        len += at_most(snprintf(line + len, room - len, " " TERN_LOG_REQUEST "=%llu",
                                (unsigned long long)current_request),
                       room - len);
    }
    return len;
}

// --- Ring buffer of the last lines, for tern_log_recent()

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static char kept[TERN_LOG_RECENT_MAX - 1];
static size_t kept_first; // offset of the oldest line
static size_t kept_len;
static atomic_bool keeps;

static void drop_oldest(void)
{
    bool whole = false;
    while (!whole && kept_len > 0) {
        whole = kept[kept_first] == '\n';
        kept_first = (kept_first + 1) % sizeof kept;
        kept_len--;
    }
}

static void keep(const char *line, size_t len)
{
    if (!atomic_load_explicit(&keeps, memory_order_acquire) || len > sizeof kept) {
        return;
    }
    pthread_mutex_lock(&kept_lock);
    while (kept_len + len > sizeof kept) {
        drop_oldest();
    }
    for (size_t i = 0; i < len; i++) {
        kept[(kept_first + kept_len++) % sizeof kept] = line[i];
    }
    pthread_mutex_unlock(&kept_lock);
}

void tern_log_keep(void)
{
    atomic_store_explicit(&keeps, true, memory_order_release);
}

size_t tern_log_recent(char lines[TERN_LOG_RECENT_MAX])
{
    pthread_mutex_lock(&kept_lock);
    const size_t len = kept_len;
    for (size_t i = 0; i < len; i++) {
        lines[i] = kept[(kept_first + i) % sizeof kept];
    }
    pthread_mutex_unlock(&kept_lock);
    lines[len] = '\0';
    return len;
}

// Clears the status line, writes the event, and shows the status line again below it.
static void write_event(const char *line, size_t len)
{
    static char all[sizeof CLEAR_LINE + TERN_LOG_JSON_MAX(LINE_MAX_BYTES) + PROGRESS_MAX];
    keep(line, len);
    if (!atomic_load_explicit(&shows_progress, memory_order_acquire)) {
        write_line(line, len);
        return;
    }
    pthread_mutex_lock(&progress_lock);
    const int size = snprintf(all, sizeof all, CLEAR_LINE "%.*s%s", (int)len, line, progress);
    write_line(all, (size_t)size);
    pthread_mutex_unlock(&progress_lock);
}

void tern_log_progress(const char *text)
{
    char line[sizeof CLEAR_LINE + PROGRESS_MAX];
    const unsigned width = tern_terminal_width(STDERR_FILENO);
    if (width == 0) {
        return;
    }
    pthread_mutex_lock(&progress_lock);
    char before[PROGRESS_MAX];
    memcpy(before, progress, sizeof before);
    snprintf(progress, width < sizeof progress ? width : sizeof progress, "%s", text);
    tern_utf8_show(progress, strlen(progress));
    if (strcmp(before, progress) != 0) {
        const int size = snprintf(line, sizeof line, CLEAR_LINE "%s", progress);
        write_line(line, (size_t)size);
    }
    atomic_store_explicit(&shows_progress, progress[0] != '\0', memory_order_release);
    pthread_mutex_unlock(&progress_lock);
}

// --- Lines held until a transaction commits

#define HELD_FIRST 4096u // bytes; first allocation

static _Thread_local struct {
    bool on;
    char *lines; // each with its newline
    size_t len;
    size_t room;
} held;

void tern_log_hold(void)
{
    held.on = true;
}

static bool hold_line(const char *line, size_t len)
{
    size_t room = held.room == 0 ? HELD_FIRST : held.room;
    while (room - held.len < len) {
        room *= 2;
    }
    char *lines = room == held.room ? held.lines : realloc(held.lines, room);
    if (lines == NULL) {
        return false;
    }
    memcpy(lines + held.len, line, len);
    held.lines = lines;
    held.len += len;
    held.room = room;
    return true;
}

void tern_log_release(bool happened)
{
    size_t end = 0;
    for (size_t at = 0; happened && at < held.len; at = end) {
        const char *newline = memchr(held.lines + at, '\n', held.len - at);
        end = (size_t)(newline - held.lines) + 1;
        write_event(held.lines + at, end - at);
    }
    free(held.lines);
    memset(&held, 0, sizeof held);
}

// --- Events

static void write_or_hold(enum tern_log_level level, const char *line, size_t len)
{
    if (level == TERN_LOG_ERROR || !held.on || !hold_line(line, len)) {
        write_event(line, len);
    }
}

void tern_log(enum tern_log_level level, const char *event, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    char object[TERN_LOG_JSON_MAX(LINE_MAX_BYTES)];
    int saved_errno = errno;
    if (!enabled(level)) {
        return;
    }
    size_t room = sizeof(line) - 1; // one byte is for the newline
    size_t len = write_head(level, event, line, room);
    if (format != NULL && len + 1 < room) {
        line[len++] = ' ';
        va_list arguments;
        va_start(arguments, format);
        len += at_most(vsnprintf(line + len, room - len, format, arguments), room - len);
        va_end(arguments);
    }
    tern_utf8_show(line, len);
    if (atomic_load_explicit(&chosen_format, memory_order_relaxed) == TERN_LOG_AS_JSON) {
        write_or_hold(level, object, tern_log_json(format, line, len, object));
    } else {
        line[len++] = '\n';
        write_or_hold(level, line, len);
    }
    errno = saved_errno;
}

#define CUT "..." // ends a text that does not fit

const char *tern_log_text(char dst[TERN_LOG_TEXT_MAX], const char *text)
{
    text = text == NULL ? "" : text;
    const bool quoted = text[0] == '\0' || strpbrk(text, " \"\\=") != NULL;
    const size_t end = TERN_LOG_TEXT_MAX - quoted - 1; // the closing quote and the NUL follow
    size_t used = 0;
    size_t cut = 0; // length of the longest prefix of whole characters that leaves room for CUT
    if (quoted) {
        dst[used++] = '"';
    }
    for (; *text != '\0'; text++) {
        const bool escaped = *text == '"' || *text == '\\';
        if (((unsigned char)*text & 0xC0) != 0x80 && used + strlen(CUT) <= end) {
            cut = used;
        }
        if (used + escaped + 1 > end) {
            used = cut + (size_t)snprintf(dst + cut, TERN_LOG_TEXT_MAX - cut, CUT);
            break;
        }
        if (escaped) {
            dst[used++] = '\\';
        }
        dst[used++] = *text;
    }
    if (quoted) {
        dst[used++] = '"';
    }
    dst[used] = '\0';
    return dst;
}
