// What a program's settings.def has a row for each type of: included by the one .c file that makes the
// table of it, after TERN_SETTINGS_STRUCT was defined. A field is named section_key.
//
//   TEXT(round, name, 64, "", "...")              char[64]
//   U32(round, cohort, "10", 1, 1000, "...")      fallback, least, most
//
// A row may end in an enum tern_setting_change, behind its doc.
#ifndef TERN_SETTING_ROWS_H
#define TERN_SETTING_ROWS_H

#include "hosted/settings.h"

#define ROW(section, key, type, fallback, min, max, ...)                                           \
    TERN_SETTING_ENTRY(#section, #key, type, section##_##key, fallback, min, max, __VA_ARGS__)

#define TEXT(section, key, size, fallback, ...)                                                    \
    ROW(section, key, TEXT, fallback, 0, (size)-1, __VA_ARGS__)
#define BOOL(section, key, fallback, ...) ROW(section, key, BOOL, fallback, 0, 1, __VA_ARGS__)
#define U32(section, key, fallback, min, ...) ROW(section, key, U32, fallback, min, __VA_ARGS__)
#define U64(section, key, fallback, min, ...) ROW(section, key, U64, fallback, min, __VA_ARGS__)
#define REAL(section, key, fallback, min, ...) ROW(section, key, REAL, fallback, min, __VA_ARGS__)
#define MS(section, key, fallback, min, ...) ROW(section, key, MS, fallback, min, __VA_ARGS__)
#define AUTO_MS(section, key, fallback, min, ...)                                                  \
    ROW(section, key, AUTO_MS, fallback, min, __VA_ARGS__)
#define BYTES(section, key, fallback, min, ...) ROW(section, key, BYTES, fallback, min, __VA_ARGS__)

#endif
