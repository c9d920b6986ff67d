// Settings of a program: one table gives the struct's fields and defaults, the INI parser
// (libinih), command-line overrides, --settings and the documented example file. For hosted
// programs only (uses stdio and malloc). Not thread-safe while loading: libinih is configured by
// globals.
//
// A program writes each setting once, in a .def file of its own, a row by its type (hosted/setting_rows.h):
//
//   U32(server, port, "8443", 1, 65535, "TCP port to listen on.")
//   PATH(server, certificate, "", "PEM file with the certificate chain; empty = none.")
//   ENUM(log, format, "text", "text | json", "How a line is written.")
//
// and turns it into a struct, whose fields are named section_key, and a table:
//
//   struct example_settings {
//   #include "hosted/setting_fields.def"
//   #include "settings.def"
//   #include "hosted/setting_rows_end.def"
//   };
//
//   #define TERN_SETTINGS_STRUCT struct example_settings
//   #include "hosted/setting_rows.h"
//   static const struct tern_setting table[] = {
//   #include "settings.def"
//   };
//   static const struct tern_settings settings = TERN_SETTINGS("tern-example", table, NULL);
#ifndef TERN_HOSTED_SETTINGS_H
#define TERN_HOSTED_SETTINGS_H

#include "result.h"
#include "util/spec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tern_setting_type {
    TERN_SETTING_TEXT,  // char[size]; UTF-8 without control characters
    TERN_SETTING_U32,   // uint32_t; "10k" = 10000, "4Ki" = 4096
    TERN_SETTING_U64,   // uint64_t; same units as U32
    TERN_SETTING_REAL,  // double
    TERN_SETTING_BOOL,  // bool; true/false/yes/no/on/off/1/0
    TERN_SETTING_MS,    // uint64_t milliseconds; "500ms", "30s", "5m", "2h", "1d"; bare: ms
    TERN_SETTING_BYTES, // uint64_t bytes; "1500", "64Ki" or "64KiB" (1024), "20M" or "20MB" (1000)
    TERN_SETTING_AUTO_MS, // as MS, or "auto": TERN_AUTO_MS, for which the program finds a duration
    TERN_SETTING_ENUM,    // char[TERN_SETTING_WORD_MAX]: one of `words`
    TERN_SETTING_SPEC,    // char[size]; a spec string that `spec` accepts
};

#define TERN_AUTO_MS UINT64_MAX

// When another value takes effect.
enum tern_setting_change {
    TERN_SETTING_RESTART, // when the program restarts
    TERN_SETTING_LIVE,    // also when the running program rereads its settings (SIGHUP)
    TERN_SETTING_INIT,    // only in new objects; existing ones keep their own value
};

// The rules for a setting that is a spec string.
struct tern_setting_spec {
    const struct tern_spec_list *list; // the names and keys that are allowed
    const char *besides; // further values that check() accepts, for --settings; NULL = none
    const char *number;  // prefix for a value that is a number, e.g. "constant:rate="; NULL = none
    // Checks a value. On error writes to `why` what is wrong and what is allowed.
    enum tern_result (*check)(const char *text, char why[TERN_SPEC_SENTENCE_MAX]);
};

struct tern_setting {
    const char *section;
    const char *key;
    enum tern_setting_type type;
    size_t offset;                        // of the field in the program's struct
    size_t size;                          // of the field
    const char *fallback;                 // default value as text
    double min, max;                      // inclusive; TEXT: of the length in bytes
    const char *words;                    // ENUM: "text | json"; TEXT: what the text may be
    const struct tern_setting_spec *spec; // SPEC; TEXT: compares values and names the allowed ones
    const char *doc;                      // one or two sentences with the unit
    enum tern_setting_change change;
};

// A section, and the program that reads it.
struct tern_settings_section {
    const char *name;
    const char *program;
};

struct tern_settings {
    const char *program;
    const struct tern_setting *table;
    size_t count;
    // Sections of Tern's other programs, ended by a row without a name; NULL: none. A file with
    // settings of this program may contain them, --set may not.
    const struct tern_settings_section *foreign_sections;
    // "section.key" of other programs' settings that --set accepts, ended by NULL; the program
    // reads them from cli->sets. NULL: none.
    const char *const *foreign_keys;
    // Prints derived numbers as comments of --settings; NULL: there are none.
    void (*print_derived)(const void *values, FILE *out);
};

// All sections of Tern's programs and experiments, for foreign_sections: one file can serve several
// programs. A program's own sections may be in the list.
extern const struct tern_settings_section tern_settings_sections[];

#define TERN_SETTINGS(program, table, foreign_sections)                                            \
    {                                                                                              \
        program, table, sizeof(table) / sizeof((table)[0]), foreign_sections, NULL, NULL           \
    }

// Fills *values (the program's struct) with the defaults. A default outside its own range is a bug:
// the function reports it on stderr and aborts.
void tern_settings_defaults(const struct tern_settings *settings, void *values);

// Loads an INI file over *values. A file without settings of this program is an error, unless
// foreign_keys is set. On error *values is unchanged and why names the file, line and key, the
// mistake, and what is allowed. A key given twice is an error.
// TERN_ERR_NOT_FOUND  no such file; TERN_ERR_IO  it cannot be read; TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_settings_load(const struct tern_settings *settings,
                                                  void *values, const char *path, char why[512]);

// Like tern_settings_load(), from a stream. path: its name in error messages.
TERN_MUST_USE enum tern_result tern_settings_load_stream(const struct tern_settings *settings,
                                                         void *values, FILE *stream,
                                                         const char *path, char why[512]);

// Applies one "section.key=value" from the command line. TERN_ERR_CONFIG, *values unchanged.
// "section" may be left out when the key is unique. A foreign section is refused with the name of its program.
TERN_MUST_USE enum tern_result tern_settings_set(const struct tern_settings *settings, void *values,
                                                 const char *assignment, char why[512]);

// Returns the setting that a "section.key=value" names, as for tern_settings_set(). NULL: none, or
// one of another program's.
const struct tern_setting *tern_settings_named(const struct tern_settings *settings,
                                               const char *assignment);

// Writes the value of `setting` in *values as text that reads back as the same value.
#define TERN_SETTING_TEXT_MAX 1024
void tern_setting_format(const struct tern_setting *setting, const void *values,
                         char text[TERN_SETTING_TEXT_MAX]);

// Copies the i-th word of an ENUM setting; false if there are fewer words.
#define TERN_SETTING_WORD_MAX 32
#define TERN_SETTING_PATH_MAX 256
bool tern_setting_word(const char *words, uint32_t i, char word[TERN_SETTING_WORD_MAX]);

// Returns true if two texts give the setting the same value. Spec strings may list keys in another order or with their
// presets, and number 0.5 is 0.50.
bool tern_setting_text_equal(const struct tern_setting *setting, const char *a, const char *b);

// Returns true if the setting has the same value in both structs, by tern_setting_text_equal() for texts.
bool tern_setting_equal(const struct tern_setting *setting, const void *a, const void *b);

// Writes the example INI file: every key with its doc, range and default. A key without a default
// is written as a comment. values: for print_derived().
void tern_settings_print_example(const struct tern_settings *settings, const void *values,
                                 FILE *out);

// --- setting_value

// One value of a setting, from its text form. Internal to shared/hosted; pure; reentrant.

// Parses `text` into `field`. On error the field is unchanged and `problem` has the reason, e.g.
// "is over the limit". For a spec string the reason begins with a colon and includes the allowed
// values.
// TERN_ERR_CONFIG
#define TERN_SETTING_PROBLEM_MAX (TERN_SPEC_SENTENCE_MAX + 2)
TERN_MUST_USE enum tern_result tern_setting_parse(const struct tern_setting *setting,
                                                  const char *text, void *field,
                                                  char problem[TERN_SETTING_PROBLEM_MAX]);

// Writes the allowed values, e.g. "a duration from 1s to 1d".
#define TERN_SETTING_ALLOWED_MAX 512
void tern_setting_allowed(const struct tern_setting *setting,
                          char allowed[TERN_SETTING_ALLOWED_MAX]);

#endif
