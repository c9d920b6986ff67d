// A line of the log as a JSON object: what tern_log() writes where JSON is wanted. Pure; reentrant.
#ifndef TERN_LOG_JSON_H
#define TERN_LOG_JSON_H

#include <stddef.h>

// The key of tern_log_set_request(), whose value is a number wherever it stands.
#define TERN_LOG_REQUEST "request"

// Bytes that a line of `len` bytes becomes at most: an empty pair, a space, becomes "":"", in it.
#define TERN_LOG_JSON_MAX(len) (6 * (len) + 8)

// line: `len` bytes, "key=value" pairs with one space between, values bare or in double quotes as of
// tern_log_text(), cut anywhere; without control characters. format: what they were printed by, NULL for
// none: the values of its number conversions become numbers, all others text. dst:
// TERN_LOG_JSON_MAX(len) bytes; gets the object and a newline. Returns how many bytes that is.
size_t tern_log_json(const char *format, const char *line, size_t len, char *dst);

#endif
