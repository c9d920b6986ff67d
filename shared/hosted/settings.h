// Settings of a program: one table gives the struct's defaults, the INI parser (libinih),
// command-line overrides, --help and the documented example file. For hosted programs only (uses
// stdio). A table is generated from a settings.def; see client/cli and aggregator/cli. Not
// thread-safe while loading.
#ifndef TERN_SETTINGS_H
#define TERN_SETTINGS_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tern_setting_type {
    TERN_SETTING_TEXT,  // char[size]
    TERN_SETTING_U32,   // uint32_t; "10k" = 10000, "4Ki" = 4096
    TERN_SETTING_U64,   // uint64_t; likewise
    TERN_SETTING_REAL,  // double
    TERN_SETTING_BOOL,  // bool; true/false/yes/no/on/off/1/0
    TERN_SETTING_MS,    // uint64_t milliseconds; "500ms", "30s", "5m", "2h", "1d"
    TERN_SETTING_BYTES, // uint64_t bytes; "1500", "64Ki", "20M", "1G"
};

struct tern_setting {
    const char *section;
    const char *key;
    enum tern_setting_type type;
    size_t offset;        // in the program's struct
    size_t size;          // of the field
    const char *fallback; // default, in the text form
    double min, max;      // inclusive; TEXT: length
    const char *doc;      // one or two sentences with the unit
};

struct tern_settings {
    const char *program;
    const struct tern_setting *table;
    size_t count;
    const char *const
        *foreign_sections; // sections of Tern's other programs, NULL-terminated: skipped
};

// Fills *values (the program's struct) with the defaults.
void tern_settings_defaults(const struct tern_settings *settings, void *values);

// Loads an INI file over *values. On error *values is unchanged and why says file, line, key, what
// was wrong, and what is allowed. TERN_ERR_NOT_FOUND  no such file; TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_settings_load(const struct tern_settings *settings,
                                                  void *values, const char *path, char why[512]);

// Applies one "section.key=value" from the command line. TERN_ERR_CONFIG
// "section" may be left out when the key is unique. An override of a foreign section is skipped.
TERN_MUST_USE enum tern_result tern_settings_set(const struct tern_settings *settings, void *values,
                                                 const char *assignment, char why[512]);

// Writes the documented example INI: every key with its doc, range and default.
void tern_settings_print_example(const struct tern_settings *settings, FILE *out);

// Writes the present values as an INI file.
void tern_settings_print(const struct tern_settings *settings, const void *values, FILE *out);

#endif
