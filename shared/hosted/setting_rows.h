// Turns the rows of a program's settings.def into its table: included by the one .c file that makes it, after
// TERN_SETTINGS_STRUCT was defined. A field is named section_key.
//
//   PATH | FILLED_PATH(section, key, fallback, doc)    char[TERN_SETTING_PATH_MAX]; FILLED_PATH may not be empty
//   TEXT | FILLED(section, key, size, fallback, grammar, doc)
//                                                      char[size], NUL included; FILLED may not be empty; grammar: what
//                                                      the text may be, for --settings and errors: "https://HOST:PORT"
//   ENUM(section, key, fallback, "one | two", doc)     char[TERN_SETTING_WORD_MAX]: one of the words
//   SPEC(section, key, size, fallback, spec, doc)      char[size]; spec: a struct tern_setting_spec
//   COMPARED(section, key, size, fallback, spec, doc)  TEXT that is compared as a spec string; another place checks it
//   BOOL(section, key, fallback, doc)                  bool
//   U32 | U64 | REAL | MS | AUTO_MS | BYTES(section, key, fallback, least, most, doc)
//
// A row may end in an enum tern_setting_change, behind its doc: when another value takes effect.
#ifndef TERN_SETTING_ROWS_H
#define TERN_SETTING_ROWS_H

#include "hosted/settings.h"

#define ROW(section_, key_, type_, usual, least, most, words_, spec_, ...)                         \
    {.section = #section_,                                                                         \
     .key = #key_,                                                                                 \
     .type = TERN_SETTING_##type_,                                                                 \
     .offset = offsetof(TERN_SETTINGS_STRUCT, section_##_##key_),                                  \
     .size = sizeof(((TERN_SETTINGS_STRUCT *)0)->section_##_##key_),                               \
     .fallback = usual,                                                                            \
     .min = (double)(least),                                                                       \
     .max = (double)(most),                                                                        \
     .words = words_,                                                                              \
     .spec = spec_,                                                                                \
     .doc = __VA_ARGS__},

#define TEXT(section, key, size, fallback, grammar, ...)                                           \
    ROW(section, key, TEXT, fallback, 0, (size)-1, grammar, NULL, __VA_ARGS__)
#define FILLED(section, key, size, fallback, grammar, ...)                                         \
    ROW(section, key, TEXT, fallback, 1, (size)-1, grammar, NULL, __VA_ARGS__)
#define PATH(section, key, fallback, ...)                                                          \
    TEXT(section, key, TERN_SETTING_PATH_MAX, fallback, "a path", __VA_ARGS__)
#define FILLED_PATH(section, key, fallback, ...)                                                   \
    FILLED(section, key, TERN_SETTING_PATH_MAX, fallback, "a path", __VA_ARGS__)
#define ENUM(section, key, fallback, words, ...)                                                   \
    ROW(section, key, ENUM, fallback, 0, 0, words, NULL, __VA_ARGS__)
#define SPEC(section, key, size, fallback, spec, ...)                                              \
    ROW(section, key, SPEC, fallback, 0, (size)-1, NULL, &(spec), __VA_ARGS__)
#define COMPARED(section, key, size, fallback, spec, ...)                                          \
    ROW(section, key, TEXT, fallback, 0, (size)-1, NULL, &(spec), __VA_ARGS__)
#define BOOL(section, key, fallback, ...)                                                          \
    ROW(section, key, BOOL, fallback, 0, 1, NULL, NULL, __VA_ARGS__)
#define NUMBER(section, key, type, fallback, least, most, ...)                                     \
    ROW(section, key, type, fallback, least, most, NULL, NULL, __VA_ARGS__)
#define U32(section, key, ...) NUMBER(section, key, U32, __VA_ARGS__)
#define U64(section, key, ...) NUMBER(section, key, U64, __VA_ARGS__)
#define REAL(section, key, ...) NUMBER(section, key, REAL, __VA_ARGS__)
#define MS(section, key, ...) NUMBER(section, key, MS, __VA_ARGS__)
#define AUTO_MS(section, key, ...) NUMBER(section, key, AUTO_MS, __VA_ARGS__)
#define BYTES(section, key, ...) NUMBER(section, key, BYTES, __VA_ARGS__)

#endif
