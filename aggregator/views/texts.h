// Formats values for people, in tables and sentences, and for JSON. Reentrant.
#ifndef TERN_VIEW_TEXTS_H
#define TERN_VIEW_TEXTS_H

#include "util/sha256.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define TERN_TEXT 192

// Prints a duration: "250 ms", "3 m 20 s", "2 d 4 h".
const char *tern_text_duration(uint64_t ms, char text[TERN_TEXT]);
// Prints a time: "2026-01-31 12:00:00Z"; "never" for 0.
const char *tern_text_time(uint64_t unix_ms, char text[TERN_TEXT]);
// Prints the time since `then`: "3 m 20 s ago"; "never" if `then` is 0.
const char *tern_text_ago(uint64_t then_ms, uint64_t now_ms, char text[TERN_TEXT]);
// Prints a number of bytes: "813 B", "12.7 KB", "1.25 MB" (powers of 1000).
const char *tern_text_bytes(double bytes, char text[TERN_TEXT]);
// Prints a text from the network or a database, with '?' in place of control and invisible characters.
const char *tern_text_name(const char *name, char text[TERN_TEXT]);

// --- Members of a JSON object

// Adds exact 64-bit numbers and hashes, which cJSON's own numbers (doubles) cannot hold. With key "" nothing is added.
void tern_json_u64(cJSON *object, const char *key, uint64_t value);
void tern_json_hash(cJSON *object, const char *key, const uint8_t hash[TERN_SHA256_SIZE]);
// Adds a float as the shortest decimal that gives the same float: 0.9, not 0.89999997615814209.
void tern_json_float(cJSON *object, const char *key, float value);
void tern_json_text(cJSON *object, const char *key, const char *text);
void tern_json_bool(cJSON *object, const char *key, bool value);

#endif
