// The log of the hosted programs: one line per event on stderr, as text ("time=2026-01-31T12:00:00.000Z
// level=info event=round-open round=3 target=10") or as one JSON object with the same keys. Safe from
// any thread; a line is never torn.
#ifndef TERN_LOG_H
#define TERN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_log_level {
    TERN_LOG_ERROR = 0,
    TERN_LOG_WARN = 1,
    TERN_LOG_INFO = 2,
    TERN_LOG_DEBUG = 3,
};

// Events above this level are dropped. TERN_LOG_INFO at start.
void tern_log_set_level(enum tern_log_level level);

// Returns the level "error", "warn", "info" or "debug". Settings refuse other words; for these it returns TERN_LOG_INFO.
enum tern_log_level tern_log_level_named(const char *name);

enum tern_log_format {
    TERN_LOG_AS_TEXT,
    TERN_LOG_AS_JSON,
};

// Sets the format of further lines. TERN_LOG_AS_TEXT at start.
void tern_log_set_format(enum tern_log_format format);

// Returns the format "text" or "json"; TERN_LOG_AS_TEXT for other words.
enum tern_log_format tern_log_format_named(const char *name);

// Sets the number of the request that this thread works for. Its lines then have "request=NUMBER" behind the event. 0, as
// at start: no request.
void tern_log_set_request(uint64_t request);
uint64_t tern_log_request(void);

// Holds the lines that this thread logs from now on until tern_log_release(), so that the log reports nothing that a
// rollback undoes. Errors are written at once, since they report why a transaction fails.
void tern_log_hold(void);
// Writes the held lines in their order, or drops them where the transaction was rolled back.
void tern_log_release(bool happened);

// Shows a status line below the log, cut to the terminal's width; "" removes it. Each event redraws
// it. No effect if stderr is not a terminal. From one thread.
void tern_log_progress(const char *text);

// Keeps the last 64 KiB of log lines in memory for tern_log_recent(). Call once, at start.
void tern_log_keep(void);

#define TERN_LOG_RECENT_MAX 65536
// Copies the kept lines, oldest first, each with its newline, and adds a NUL. Returns the number of
// bytes without the NUL.
size_t tern_log_recent(char lines[TERN_LOG_RECENT_MAX]);

#define TERN_LOG_TEXT_MAX 512 // bytes of one quoted text, with the terminating NUL

// Writes one event. format: "key=%d other=%s", or NULL. Texts with spaces or quotes, and all texts from outside, need
// TERN_LOG_TEXT(). Control characters never reach the log. In JSON, the values of %d, %u, %g and the like are numbers and
// all others texts, so that each key has one type.
void tern_log(enum tern_log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Quotes a text where it needs quotes, with \" and \\. A text that does not fit into TERN_LOG_TEXT_MAX ends with "...".
// NULL is "". Returns dst.
const char *tern_log_text(char dst[TERN_LOG_TEXT_MAX], const char *text);

// Like tern_log_text(), into a buffer that lives until the end of the enclosing block.
#define TERN_LOG_TEXT(text) tern_log_text((char[TERN_LOG_TEXT_MAX]){0}, (text))

// Size limit of the JSON form of a line of `len` bytes: the shortest pair, an empty word and its
// space, becomes "":"",.
#define TERN_LOG_JSON_MAX(len) (6 * (len) + 8)

// Writes a line as a JSON object and a newline; returns their bytes. For tests. line: `len` bytes without control
// characters, "key=value" pairs with one space between them, values bare or quoted by tern_log_text(); the line may be
// cut anywhere. format: the printf format of the pairs, or NULL; values of its number conversions become numbers,
// all others text. dst: TERN_LOG_JSON_MAX(len) bytes.
size_t tern_log_json(const char *format, const char *line, size_t len, char *dst);

#endif
